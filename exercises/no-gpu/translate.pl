#!/usr/bin/env perl
# translate.pl - rewrites what a C++ compiler cannot read in CUDA source:
#
#   name<T><<<grid, block>>>(...)   NOGPU_KERNEL(name<T>).on(grid, block)(...)
#   __shared__ float a[8][9];       a reference into the block's shared memory
#   extern __shared__ float s[];    a pointer to its dynamic part
#   #include "file.cuh"             the file, rewritten too
#   a[i] or *p, read in a kernel    nogpu::read(a[i]), which tells if it was never
#                                   written
#   #pragma unroll                  nothing
#   __noinline__                    an attribute; as a macro it breaks libstdc++
#
# No line is added or removed, and #line names the student's own file, so every
# message about the rewritten file points into that one.
#
#   perl translate.pl TEMPFOLDER FILE.cu [FOLDER ...]    prints the new file
# The folders are those of nvcc's -I options.
# SPDX-License-Identifier: MIT
use strict;
use warnings;
use Cwd ();
use File::Basename qw(basename dirname);

my ($temp, $main, @folders) = @ARGV;
my %done;      # absolute path -> rewritten file
my %template;  # kernel template -> number of its parameters
my @hidden;    # comments and literals; \1N\2 or \3N\4 stands for number N

# Balanced brackets, and white space with comments.
my $round = qr/(\((?:[^()]++|(?-1))*+\))/;
my $square = qr/(\[(?:[^\[\]]++|(?-1))*+\])/;
my $curly = qr/(\{(?:[^{}]++|(?-1))*+\})/;
my $angle = qr/(<(?:[^<>();]++|$round|(?-2))*+>)/;
my $s = qr/(?:\s|\\\n|\x01\d+\x02)*+/;

sub hide {
  my ($what, $left, $right) = @_;
  push @hidden, $what;
  return $left . $#hidden . $right;
}
sub restore {
  my ($text) = @_;
  1 while $text =~ s/[\x01\x03](\d+)[\x02\x04]/$hidden[$1]/g;
  return $text;
}
sub newlines { return "\n" x (restore($_[0]) =~ tr/\n//) }
sub missing {
  return hide(qq(static_assert(false, "$_[0] is not supported without a GPU")),
              "\3", "\4");
}

# Splits at the commas outside brackets.
sub commas {
  my ($depth, @parts) = (0, '');
  for my $piece (split /([,<>()\[\]{}])/, $_[0]) {
    $depth++ if $piece =~ /^[<(\[{]$/;
    $depth-- if $piece =~ /^[>)\]}]$/;
    if ($piece eq ',' && !$depth) { push @parts, '' }
    else { $parts[-1] .= $piece }
  }
  return @parts;
}

# A header of Thrust or cuda::std: a file that includes it with the words of CUDA
# undefined, so that it takes this for the plain C++ compiler that it is.
sub library {
  my ($name) = @_;
  my $new = "$temp/library_" . $name =~ s/\W/_/gr;
  my @words = qw(__CUDACC__ __NVCC__ __CUDACC_VER_MAJOR__ __CUDACC_VER_MINOR__
    __CUDACC_VER_BUILD__ __CUDA_ARCH_LIST__ CUDA_VERSION CUDART_VERSION
    __host__ __device__ __global__ __constant__ __forceinline__ __noinline__
    __align__ __launch_bounds__ __restrict__ __grid_constant__);
  open my $to, '>', $new or die "nvcc (no GPU): cannot write $new: $!\n";
  print $to map({ qq(#pragma push_macro("$_")\n#undef $_\n) } @words),
    "#include <$name>\n", map { qq(#pragma pop_macro("$_")\n) } @words;
  close $to or die "nvcc (no GPU): cannot write $new: $!\n";
  return $new;
}

# A line with #include.
sub include {
  my ($line, $from) = @_;
  $line =~ /include[ \t]*(["<])([^">]+)[">]/ or return $line;
  my ($quote, $name) = ($1, $2);
  my $rest = newlines($line);
  return $rest
    if $name =~ /^(?:cuda|cuda_runtime(?:_api)?|device_launch_parameters)\.h$/;
  for my $folder ($quote eq '"' ? dirname($from) : (), @folders) {
    my $path = $folder eq '.' && $from !~ m{^\./} ? $name : "$folder/$name";
    return '#include "' . translate($path) . qq("$rest) if -f $path;
  }
  return '#include "' . library($name) . qq("$rest)
    if $ENV{NOGPU_LIBRARY} && $name =~ m{^(?:thrust|cuda)/};
  return qq(#error "<$name> is not supported without a GPU"$rest)
    if $name =~ m{^(?:thrust|cub|cuda|nv)/}
    || $name =~ /^(?:cooperative_groups|mma|cuda_|curand|cufft|cublas)\w*\.h$/;
  return $line;
}

# A __shared__ declaration without that word and without its semicolon.
sub shared {
  my ($before, $declaration) = @_;
  my $lines = newlines($declaration);
  my $dynamic = $declaration =~ /\bextern\b/;
  1 while $before =~ s/\{[^{}]*\}//g;  # only braces that are open are left
  $before =~ s/\b(?:namespace\b[\w\s:]*|extern\s*\x03\d+\x04\s*)\{//g;
  return missing('__shared__ outside a function') . ";$declaration"
    if $before !~ /\{/;
  $declaration =~ s/\x01\d+\x02|\\\n|\b(?:extern|static)\b/ /g;
  $declaration =~ s/\b(?:__align__|alignas|__attribute__)\s*$round//g;
  my ($type, $text) = ('', '');
  for (commas($declaration)) {
    s/\s+/ /g;
    my ($front, $name, $size) = /^(.*?)(\w+) ?((?:\[.*)?)$/ or return
      missing("this form of __shared__ ($_)");
    $type = $front =~ s/^ |[ *]+$//gr if $type eq '';
    my $stars = join '', $front =~ /\*/g;
    $size =~ s/^\[ ?\]// if $dynamic;
    $text .= "using nogpu_$name = $type$stars$size; " . ($dynamic
      ? "nogpu_$name* const $name = nogpu::dynamicShared<nogpu_$name>(); "
      : "nogpu_$name& $name = nogpu::shared<nogpu_$name>(" .
        hide(qq("$name"), "\3", "\4") . ', []{}); ');
  }
  return ($text =~ s/; $//r) . $lines;
}

# A launch, up to and with >>>.
sub launch {
  my ($kernel, $arguments, $brackets) = @_;
  my ($name) = $kernel =~ /(\w+)$/;
  my $given = $arguments ne '' ? commas($arguments =~ s/^<|>$//gr) : 0;
  my $deduced = defined $name && ($template{$name} // 0) > $given;
  return ($deduced ? 'NOGPU_DEDUCED(' : 'NOGPU_KERNEL(') . $kernel
    . $arguments . ").on($brackets)";
}

# A device function, with the reads of memory in its body marked: through pointers
# that it is given or makes, and of shared memory. read() gives back the very
# place, so a mark is never wrong; but what is written, or what a reference or an
# address is taken of, is not read, and gets none.
sub reads {
  my ($head, $body) = @_;
  my @t = grep { length } split /(\s+|\\\n|\x01\d+\x02|^\s*\#[^\n]*|\x03\d+\x04|\w+
      |->|::|\+\+|--|&&|\|\||<<=|>>=|[-+*\/%&|^=!<>]=|.)/xms, $body;
  my @at = grep { $t[$_] !~ /^(?:\s|\\|\x01)/ } 0 .. $#t;  # of what counts
  my @w = @t[@at];
  my $closing = sub {  # where the bracket that opens at $i closes
    my ($i, $depth) = ($_[0], 0);
    my $sizes = $w[$i] eq '<';  # else < and > compare
    for (; $i < @w; ++$i) {
      ++$depth if $w[$i] =~ /^[(\[{]$/ || $sizes && $w[$i] eq '<';
      --$depth if $w[$i] =~ /^[)\]}]$/ || $sizes && $w[$i] eq '>';
      return $i if !$depth;
    }
    return $#w;
  };

  my %pointer;  # name -> many elements, or one, as in __shared__ float s_sum
  my %skip;     # words of declarations
  for my $list ($head =~ /$round/g) {
    for (commas(substr($list, 1, -1) =~ s/\x01\d+\x02/ /gr)) {
      $pointer{$1} = 'many' if /\*.*?(\w+)\s*$/s || /(\w+)\s*\[[^\]]*\]\s*$/;
    }
  }
  for (my $i = 0; $i < @w; ++$i) {
    if ($w[$i] eq '__shared__') {
      for (; $i < @w && $w[$i] ne ';'; ++$i) {
        $skip{$i} = 1;
        $pointer{$w[$i]} = $w[$i + 1] eq '[' ? 'many' : 'one'
          if $w[$i + 1] =~ /^[\[,;]$/ && $w[$i] =~ /^[A-Za-z_]/;
        next if $w[$i] !~ /^[\[(<]$/;
        my $end = $closing->($i);  # a size, an alignment, a template's arguments
        $skip{$_} = 1 for $i .. $end;
        $i = $end;
      }
    } elsif ($w[$i] eq '*') {
      my $name = $i + 1;
      ++$name while ($w[$name] // '') =~ /^(?:const|__restrict__)$/;
      $pointer{$w[$name]} = 'many' if ($w[$name + 1] // '') eq '=';
    }
  }

  # A function that gives back a reference has not read what it returns.
  my $gives = $head =~ /&\s*[\w:]+\s*$round[^()]*$/;
  my $keyword = qr/^(?:return|else|case|do|throw)$/;
  for my $i (0 .. $#w) {
    next if $skip{$i};
    my ($from, $to) = ($i, $i);
    my $star = $i > 1 && $w[$i - 1] eq '*' && $w[$i - 2] =~ /^[^\w\x03)\]>&]|$keyword/;
    if ($w[$i] eq 'reinterpret_cast') {
      $to = $closing->($closing->($i + 1) + 1);
    } elsif (!$pointer{$w[$i]}) {
      next;
    }
    my $before = $i ? $w[$i - 1] : '';
    if (($w[$to + 1] // '') eq '[' || ($pointer{$w[$i]} // '') eq 'one') {
      next if $before =~ /^(?:\.|->|::|&)$/
        || $before =~ /^\w/ && $before !~ $keyword;
      while (1) {
        my $next = $w[$to + 1] // '';
        if ($next eq '[') { $to = $closing->($to + 1) }
        elsif ($next eq '.' && ($w[$to + 3] // '') ne '(') { $to += 2 }
        else { last }
      }
    } elsif ($star) {
      $from = $i - 1;
      next if ($w[$to + 1] // '') =~ /^(?:\.|->|\(|\+\+|--|\w+)$/;
    } else {
      next;
    }
    next if ($w[$to + 1] // '') eq '=' || $gives && $before eq 'return';
    next if $from > 2 && $w[$from - 1] eq '=' && $w[$from - 3] =~ /^&&?$/;
    $t[$at[$from]] = "nogpu::read($t[$at[$from]]";
    $t[$at[$to]] .= ')';
  }
  return join '', @t;
}

sub translate {
  my ($path) = @_;
  my $real = Cwd::abs_path($path);
  return $done{$real} if $done{$real};
  my $new = $done{$real} = "$temp/" . keys(%done) . '_' . basename($path);
  open my $in, '<', $path or die "nvcc (no GPU): cannot read $path: $!\n";
  my $text = do { local $/; <$in> } // '';
  close $in;
  $text =~ s/^\xEF\xBB\xBF//;  # a byte order mark
  $text =~ s/\r\n/\n/g;

  # Set aside what is not code.
  $text =~ s{
      (?<include> ^[ \t]*\#[ \t]*include\b[^\n]*)
    | (?<pragma> ^[ \t]*\#[ \t]*pragma[ \t]+(?:(?:no)?unroll|nv_|diag_|hd_)
        (?:\\\n|[^\n])*)
    | (?<line> ^[ \t]*\#[ \t]*(?:pragma|error|warning|line)\b(?:\\\n|[^\n])*)
    | (?<comment> //(?:\\\n|[^\n])* | /\*.*?\*/)
    | (?<literal> (?:u8|[uUL])?(?: R"(?<end>[^()\\\s]*)\(.*?\)\g{end}"
        | "(?:\\.|[^"\\\n])*" | '(?:\\.|[^'\\\n])*'))
    | (?<word> \w[\w']*)   # 1'000 holds no character literal
  }{
    defined $+{include} ? hide(include($+{include}, $path), "\1", "\2")
      : defined $+{pragma} ? newlines($+{pragma})
      : defined $+{line} ? hide($+{line}, "\1", "\2")
      : defined $+{comment} ? hide($+{comment}, "\1", "\2")
      : defined $+{literal} ? hide($+{literal}, "\3", "\4")
      : $+{word}
  }gemsx;

  # Kernel templates: their parameters may be left to the arguments of a launch.
  while ($text =~ /\btemplate$s(?<list>$angle) [^;{}]*? \b__global__\b
                   (?:[^;{}(]|\b__launch_bounds__$s$round)*?
                   \b(?<name>\w+) $s \(/gx) {
    my ($list, $name) = @+{qw(list name)};
    $list =~ s/^<|>$//g;
    $template{$name} = $list =~ /\.\.\./ ? 1e9 : commas($list) if $list =~ /\S/;
  }
  # Before <<< stands a name, or any expression like (&table[i])->kernel.
  $text =~ s{(?<kernel> (?: (?:::)?\b(?!(?:if|for|while|switch|return)\b)
                            [A-Za-z_]\w* | $round)
                        (?:$s(?:::|\.|->)$s\w+ | $square | $round)*)
             (?<arguments>$angle?) $s <<< (?<brackets>(?:[^()]|$round)*?) >>>}
            {launch(@+{qw(kernel arguments brackets)})}gex;
  $text =~ s{(?<head>\b__(?:global|device)__\b(?:[^;{}()]|$round)*+) (?<body>$curly)}
            {$+{head} . reads(@+{qw(head body)})}gex;
  while ($text =~ /((?:\b(?:extern|static|volatile)\s+)*)__shared__\b([^;]*);/g) {
    my ($from, $to) = ($-[0], $+[0]);
    my $new = shared(substr($text, 0, $from), "$1$2") . ';';
    substr($text, $from, $to - $from) = $new;
    pos($text) = $from + length $new;
  }
  $text =~ s/\basm$s(?:volatile)?$s$round/
             missing('inline PTX') . newlines($&)/gex;
  $text =~ s/(?<!\()\b__noinline__\b/__attribute__((noinline))/g;
  $text =~ s{(extern\s+)?(\b__constant__\b[^;(){}\#]*?\b(\w+)\s*(?=[\[=\{;])[^;]*;)}
            {$1 ? "$1$2" : "$2 static_assert(sizeof($3) <= 65536, " .
             hide('"constant memory has 65536 bytes"', "\3", "\4") . ');'}gex;
  $text =~ s/\b__managed__\b/missing('managed memory') . ';'/ge;

  open my $to, '>', $new or die "nvcc (no GPU): cannot write $new: $!\n";
  print $to '#line 1 "', $path =~ s/(["\\])/\\$1/gr, qq("\n), restore($text);
  close $to or die "nvcc (no GPU): cannot write $new: $!\n";
  return $new;
}

print translate($main), "\n";
