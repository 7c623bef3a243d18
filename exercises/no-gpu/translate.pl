#!/usr/bin/env perl
# translate.pl - what a C++ compiler cannot read in CUDA source, rewritten.
#
#   perl translate.pl TEMPFOLDER FILE.cu [-I FOLDER ...]    prints the new file
#
#   name<T><<<grid, block, ...>>>(...)  NOGPU_KERNEL(name<T>).on(grid, ...)(...)
#   __shared__ float a[8][9];           a reference into the block's memory
#   extern __shared__ float s[];        a pointer to its dynamic part
#   #include "file"                     the file, translated too
#   #pragma unroll                      nothing
# All else is copied. No line is added or removed and #line names the student's
# own file, so every message about the new file points into the old one.
# SPDX-License-Identifier: MIT
use strict;
use warnings;
use Cwd ();
use File::Basename ();

my ($temp, $main, @rest) = @ARGV;
my @folders = grep { $_ ne '-I' } @rest;
my %done;         # real path -> translated file
my %template;     # name of a kernel template -> number of its parameters
my $files = 0;
print translate($main), "\n";

# Cuts C++ text into tokens; joined again they are the text.
sub tokens {
  my ($text) = @_;
  my @tokens;
  my $fresh = 1;  # nothing but white space on this line so far
  for ($text) {
    until (/\G\z/gc) {
      if ($fresh && /\G(\#[ \t]*(?:include|pragma|error|warning|line)\b
                       (?:\\\r?\n|\/\*.*?\*\/|[^\n])*)/gcsx) {}
      elsif (/\G(\s+)/gc) { }
      elsif (/\G(\/\/(?:\\\r?\n|[^\n])*)/gc) { }
      elsif (/\G(\/\*.*?\*\/)/gcs) { }
      elsif (/\G((?:u8|[uUL])?R"([^()\\\s]*)\(.*?\)\2")/gcs) { }
      elsif (/\G((?:u8|[uUL])?"(?:\\.|[^"\\\n])*")/gcs) { }
      elsif (/\G((?:u8|[uUL])?'(?:\\.|[^'\\\n])*')/gcs) { }
      elsif (/\G([A-Za-z_]\w*)/gc) { }
      elsif (/\G(\.?\d(?:[eEpP][+-]|'(?=\w)|[\w.])*)/gc) { }
      elsif (/\G(<<<|<<=?|<=|->|::|\.\.\.)/gc) { }
      elsif (/\G(.)/gcs) { }
      push @tokens, $1;
      $fresh = $1 =~ /\n\s*\z/ || ($fresh && $1 =~ /^(?:\s|\/\*)/);
    }
  }
  return @tokens;
}

sub blank { return $_[0] =~ /^(?:\s|\/\/|\/\*)/ }
sub newlines { return "\n" x ($_[0] =~ tr/\n//) }

# From an opening or closing bracket at $i, walks in direction $step to its
# partner. Angle brackets count only where $angle is true.
sub partner {
  my ($t, $i, $step, $angle) = @_;
  my ($open, $close) = $step > 0 ? (qr/^[(\[{]$/, qr/^[)\]}]$/)
                                 : (qr/^[)\]}]$/, qr/^[(\[{]$/);
  my ($less, $more) = $step > 0 ? ('<', '>') : ('>', '<');
  my ($depth, $corners) = (0, 0);
  for (; $i >= 0 && $i < @$t; $i += $step) {
    if ($t->[$i] =~ $open) { $depth++ }
    elsif ($t->[$i] =~ $close) {
      return -1 if --$depth < 0;
      return $i if !$angle && $depth == 0;
    }
    elsif ($angle && $depth == 0 && $t->[$i] eq $less) { $corners++ }
    elsif ($angle && $depth == 0 && $t->[$i] eq $more) {
      return $i if --$corners == 0;
    }
    elsif ($t->[$i] eq ';') { return -1 }
  }
  return -1;
}

# Splits tokens at the commas outside all brackets.
sub commas {
  my @parts = ([]);
  my $depth = 0;
  for my $token (@_) {
    $depth++ if $token =~ /^[(\[{<]$/;
    $depth-- if $token =~ /^[)\]}>]$/;
    if ($token eq ',' && $depth == 0) { push @parts, [] }
    else { push @{$parts[-1]}, $token }
  }
  return @parts;
}

# The expression that ends at $out->[$end] and names a kernel: where it starts,
# and its last name with the number of template arguments (-1: none).
sub kernel_before {
  my ($out, $end) = @_;
  my ($i, $name, $arguments) = ($end, '', -1);
  if ($out->[$i] eq '>') {
    $i = partner($out, $end, -1, 1);
    $arguments = commas(@$out[$i + 1 .. $end - 1]);
    $i--;
  }
  while ($i >= 0) {
    $i = partner($out, $i, -1, 0) if $out->[$i] =~ /^[)\]]$/;
    $name ||= $out->[$i] if $out->[$i] =~ /^\w/;
    my $before = $i > 0 ? $out->[$i - 1] : '';
    if ($out->[$i] eq '[' && $before =~ /^[\w)\]]/) { $i-- }
    elsif ($out->[$i] eq '(' && $before =~ /^[A-Za-z_]/
           && $before !~ /^(?:if|while|for|switch|return|else|do)$/) { $i-- }
    elsif ($before =~ /^(?:\.|->|::)$/) {
      last if $before eq '::' && ($i < 2 || $out->[$i - 2] !~ /^[\w>]/) && $i--;
      $i -= 2;
      $i = partner($out, $i, -1, 1) - 1 if $out->[$i] eq '>';
    }
    else { last }
  }
  return ($i, $name, $arguments);
}

# "__shared__ ...;" from $t->[$i], the specifier: its replacement and its end.
sub shared {
  my ($t, $i, $dynamic) = @_;
  my (@words, $lines);
  for ($i++; $i < @$t && $t->[$i] ne ';'; $i++) {
    $lines .= newlines($t->[$i]);
    if ($t->[$i] =~ /^(?:__align__|alignas|__attribute__)$/) {
      my $j = $i + 1;
      $j++ while blank($t->[$j]);
      $i = partner($t, $j, 1, 0);
    }
    elsif ($t->[$i] eq 'extern') { $dynamic = 1 }
    elsif ($t->[$i] ne 'static' && !blank($t->[$i])) { push @words, $t->[$i] }
  }
  my ($text, $type) = ('', '');
  for my $part (commas(@words)) {
    my @p = @$part;
    my $cut = 0;
    $cut++ while $cut < @p && $p[$cut] ne '[' && $p[$cut] ne '=';
    my $name = $p[$cut - 1];
    my @front = @p[0 .. $cut - 2];
    $type = join ' ', grep { $_ ne '*' } @front if $text eq '';
    my $stars = join '', grep { $_ eq '*' } @front;
    my $size = join ' ', @p[$cut .. $#p];
    $size =~ s/^\[ *\]// if $dynamic;
    $text .= "using nogpu_$name = $type $stars $size; ";
    $text .= $dynamic
      ? "nogpu_$name* const $name = ::nogpu::dynamicShared<nogpu_$name>(); "
      : "nogpu_$name& $name = ::nogpu::shared<nogpu_$name>(\"$name\", []{}); ";
  }
  $text =~ s/ $//;
  $text =~ s/;$//;
  return ($text . ($lines // ''), $i);
}

# A #include: the line that replaces it.
sub include {
  my ($line, $from) = @_;
  my ($mark, $name) = $line =~ /include[ \t]*(["<])([^">]+)/ or return $line;
  return newlines($line)
    if $name =~ /^(?:cuda_runtime(?:_api)?|device_launch_parameters|cuda)\.h$/;
  my @places = ($mark eq '"' ? File::Basename::dirname($from) : (), @folders);
  for my $folder (@places) {
    my $path = $folder eq '.' && $from !~ m{^\./} ? $name : "$folder/$name";
    return qq(#include ") . translate($path) . '"' . newlines($line) if -f $path;
  }
  return qq(#error "no-gpu: <$name> is not supported without a GPU")
    . newlines($line)
    if $name =~ m{^(?:thrust|cub|cuda|nv|cooperative_groups)/}
    || $name =~ /^(?:cooperative_groups|mma|cuda_\w+|curand\w*|cufft|cublas\w*)
                  \.h$/x;
  return $line;
}

sub missing { return qq(static_assert(false, "no-gpu: $_[0] without a GPU")) }

sub translate {
  my ($path) = @_;
  my $real = Cwd::abs_path($path);
  return $done{$real} if $done{$real};
  my $new = $done{$real} =
    sprintf '%s/%d_%s', $temp, $files++, File::Basename::basename($path);
  open my $in, '<', $path or die "nvcc (no GPU): cannot read $path: $!\n";
  my @t = tokens(do { local $/; <$in> } // '');
  close $in;
  my @out;
  my @scopes;    # for each open brace: does it open a namespace?
  my @closing;   # for each open launch: where its >>> is
  for (my $i = 0; $i < @t; $i++) {
    my $token = $t[$i];
    if ($token =~ /^#[ \t]*include/) { push @out, include($token, $path) }
    elsif ($token =~ /^#[ \t]*pragma[ \t]+(?:unroll|nounroll|nv_|diag_|hd_)/) {
      push @out, newlines($token);
    }
    elsif ($token eq '{') {
      my $before = join '', @out[($#out > 11 ? $#out - 11 : 0) .. $#out];
      push @scopes, $before =~ /(?:namespace[\w\s:]*|extern\s*"C"\s*)\z/ ? 1 : 0;
      push @out, $token;
    }
    elsif ($token eq '}') { pop @scopes; push @out, $token }
    elsif ($token eq '__global__') {
      note_kernel(\@out, \@t, $i);
      push @out, $token;
    }
    elsif ($token eq '__shared__') {
      my $dynamic = 0;
      while (@out && (blank($out[-1]) || $out[-1] =~ /^(?:extern|static)$/)) {
        last if $out[-1] =~ /\n/;
        $dynamic = 1 if pop(@out) eq 'extern';
      }
      push @out, ' ';
      if (grep { !$_ } @scopes) {
        (my $text, $i) = shared(\@t, $i, $dynamic);
        push @out, $text, ';';
      }
      else {
        push @out,
          missing('__shared__ outside a kernel is not supported'), ';';
      }
    }
    elsif ($token eq '__managed__') {
      push @out, missing('managed memory is not supported'), ';';
    }
    elsif ($token eq 'asm') {
      my $j = $i + 1;
      $j++ while $j < @t && (blank($t[$j]) || $t[$j] eq 'volatile');
      my $end = $j < @t && $t[$j] eq '(' ? partner(\@t, $j, 1, 0) : -1;
      if ($end < 0) { push @out, $token; next }
      push @out, missing('inline PTX (asm) is not supported'),
        newlines(join '', @t[$i .. $end]);
      $i = $end;
    }
    elsif ($token eq '<<<') {
      my $end = $#out;
      $end-- while $end > 0 && blank($out[$end]);
      my ($start, $name, $arguments) = kernel_before(\@out, $end);
      my $deduced = exists $template{$name} && $arguments < $template{$name};
      $out[$start] =
        ($deduced ? 'NOGPU_DEDUCED(' : 'NOGPU_KERNEL(') . $out[$start];
      $out[$end] .= ')';
      push @out, '.on(';
      my ($depth, $j) = (0, $i + 1);
      for (; $j < @t; $j++) {
        $depth++ if $t[$j] =~ /^[(\[{]$/;
        $depth-- if $t[$j] =~ /^[)\]}]$/;
        last if $depth == 0 && join('', @t[$j .. $j + 2]) eq '>>>';
      }
      push @closing, $j;
    }
    elsif (@closing && $i == $closing[-1]) {
      pop @closing;
      $i += 2;
      push @out, ')';
    }
    else { push @out, $token }
  }
  open my $to, '>', $new or die "nvcc (no GPU): cannot write $new: $!\n";
  (my $quoted = $path) =~ s/([\\"])/\\$1/g;
  print $to qq(#line 1 "$quoted"\n), @out;
  close $to or die "nvcc (no GPU): cannot write $new: $!\n";
  return $new;
}

# Remembers kernel templates: their arguments are deduced at the launch.
sub note_kernel {
  my ($out, $t, $i) = @_;
  my $b = $#$out;
  $b-- while $b >= 0 && $out->[$b] ne '>' && $out->[$b] !~ /^(?:[;{}]|#.*)$/s;
  return if $b < 0 || $out->[$b] ne '>';
  my $a = partner($out, $b, -1, 1);
  my $k = $a - 1;
  $k-- while $k > 0 && blank($out->[$k]);
  return if $a < 1 || $out->[$k] ne 'template' || $b == $a + 1;
  my @parameters = grep { !blank($_) } @$out[$a + 1 .. $b - 1];
  my $count = grep({ $_ eq '...' } @parameters) ? 1e9 : commas(@parameters);
  for ($i++; $i < @$t && $t->[$i] ne ';' && $t->[$i] ne '{'; $i++) {
    next if blank($t->[$i]) || $t->[$i] !~ /^[A-Za-z_]/;
    my $j = $i + 1;
    $j++ while $j < @$t && blank($t->[$j]);
    next if $t->[$j] ne '(';
    if ($t->[$i] =~ /^(?:__launch_bounds__|__align__|__attribute__)$/) {
      $i = partner($t, $j, 1, 0);
    }
    else { $template{$t->[$i]} = $count; return }
  }
}
