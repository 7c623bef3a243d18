#!/usr/bin/env perl
# Holds the prose to the program: excerpts, figures, links and commands.
# SPDX-License-Identifier: MIT
#
#   perl docs.pl ROOT      a result line for each kind in each .md file
#
# In a .md file of the repository:
#
# <!-- from convolution.cu -->          before a ```cpp block: its lines are that
#     file's, one after the other, but for the indentation they share. A line
#     "// ..." stands for lines left out. A block that is not in any file has
#     <!-- sketch --> before it.
#
# <!-- figures: evidence/FILE ... -->   before a paragraph, list or table: each
#     number in it that has a decimal point or four digits and more is in one of
#     these files, or is one of theirs rounded; 16,777,216 is 16777216. After
#     the files may follow "but 2.6 13.0": numbers that are not from there.
# <!-- figures: published -->           these are quoted; the check lets them be.
#     A number with ms, us, GB/s, GiB/s or frames/s after it needs one of the two.
#
# Links to files and headings lead somewhere. In ```sh blocks and in `code`,
# exercises/..., solutions/..., evidence/..., .github/... and convolution.cu are
# files that exist; ./NAME was built by an earlier -o NAME; and an option that a
# command gives to it is an option in its source.
use strict;
use warnings;

my ($root) = @ARGV;
die "usage: docs.pl ROOT\n" unless @ARGV == 1;
chdir $root or die "$root: $!\n";

my (@faults, %done);
sub fault { my ($kind, $where, $why) = @_; push @faults, [$kind, $where, $why] }

sub slurp {
  my ($path) = @_;
  open my $in, "<", $path or return;
  local $/;
  return scalar <$in>;
}

# The .md files, and the folders that they may speak of.
sub find_files {
  my ($folder, $wanted) = @_;
  my @found;
  for my $path (sort glob("$folder/*"), sort glob("$folder/.github/*.md")) {
    $path =~ s{^\./}{};
    if (-d $path) { push @found, find_files($path, $wanted) }
    elsif ($path =~ $wanted) { push @found, $path }
  }
  return @found;
}

# ----------------------------------------------------------------- code excerpts

# LINES without the indentation they share, nor white space at their ends.
sub dedent {
  my @lines = map { s/\s+$//r } @_;
  my ($shared) = sort { $a <=> $b } map { /^( *)\S/ ? length $1 : () } @lines;
  return map { substr($_, $_ eq "" ? 0 : $shared // 0) } @lines;
}

# Why LINES are not an excerpt of the text SOURCE, or nothing.
sub not_excerpt {
  my ($lines, $source) = @_;
  my @source = split /\n/, $source;
  my @chunks = ([]);
  for (@$lines) {
    if (m{^\s*// \.\.\.$}) { push @chunks, [] }
    else { push @{ $chunks[-1] }, $_ }
  }
  my $from = 0;
  for my $chunk (@chunks) {
    my $wanted = join "\n", dedent(@$chunk);
    next if $wanted eq "";
    my $found;
    for my $i ($from .. @source - @$chunk) {
      next if join("\n", dedent(@source[$i .. $i + $#$chunk])) ne $wanted;
      $found = $i;
      last;
    }
    return "\"$chunk->[0]\" and what follows is not there" unless defined $found;
    $from = $found + @$chunk;
  }
  return;
}

# ----------------------------------------------------------------------- figures

my $number = qr/(?<![\w.,])(\d+(?:,\d{3})*(?:\.\d+)?)/;

# The figures that a file holds, as plain numbers.
my %figures_of;
sub figures_of {
  my ($path) = @_;
  return $figures_of{$path} if $figures_of{$path};
  my $text = slurp($path);
  return unless defined $text;
  my %seen;
  $seen{ tr/,//dr } = 1 for $text =~ /(\d+(?:,\d{3})*(?:\.\d+)?)/g;
  $seen{$_} = 1 for $text =~ /(\d+(?:\.\d+)?)/g;
  return $figures_of{$path} = [keys %seen];
}

# Is FIGURE, as it is written, one of the numbers, or one of them rounded?
sub is_among {
  my ($figure, $numbers) = @_;
  my $decimals = $figure =~ /\.(\d+)/ ? length $1 : 0;
  my $half = 0.5 * 10**-$decimals;
  for (@$numbers) {
    next if abs($_ - $figure) > $half * (1 + 1e-6);
    # Fewer digits may be shown than were measured, never more.
    return 1 if (/\.(\d+)/ ? length $1 : 0) >= $decimals;
  }
  return 0;
}

sub check_figures {
  my ($where, $sources, $text) = @_;
  my ($files, $but) = split /\s+but\s+/, $sources, 2;
  my %but = map { tr/,//dr => 1 } split " ", $but // "";
  my @numbers;
  for my $file (split " ", $files) {
    my $figures = figures_of($file);
    if (!$figures) { fault("figures", $where, "no file $file"); return }
    push @numbers, @$figures;
  }
  $text =~ s/\]\([^)]*\)/]/g;
  my $seen = 0;
  for ($text =~ /$number/g) {
    my $figure = tr/,//dr;
    next unless $figure =~ /\.|\d{4}/;
    ++$seen;
    next if delete $but{$figure} || is_among($figure, \@numbers);
    fault("figures", $where, "$_ is not in $files");
  }
  fault("figures", $where, "no figure here to compare") unless $seen;
  fault("figures", $where, "\"but $_\": no such figure here") for sort keys %but;
}

# ------------------------------------------------------------------------- links

# The anchor that GitHub makes of a heading.
sub anchor {
  my ($heading) = @_;
  $heading =~ s/\[([^\]]*)\]\([^)]*\)/$1/g;
  $heading = lc $heading;
  $heading =~ s/[^\w\s-]//g;
  return $heading =~ s/\s/-/gr;
}

sub check_link {
  my ($where, $path, $target) = @_;
  return if $target =~ m{^(https?|mailto):};
  my ($file, $anchor) = $target =~ /^([^#]*)(?:#(.*))?$/;
  my $folder = $path =~ m{^(.*/)} ? $1 : "";
  my $goal = $file eq "" ? $path : "$folder$file";
  if (!-e $goal) { fault("links", $where, "$target leads nowhere"); return }
  return unless defined $anchor && $goal =~ /\.md$/;
  my $text = slurp($goal) =~ s/^```.*?^```//gmsr;
  my @anchors = map { anchor($_) } $text =~ /^#+ +(.*?)\s*$/mg;
  push @anchors, $text =~ /<a (?:id|name)="([^"]+)"/g;
  fault("links", $where, "no heading for #$anchor in $goal")
    unless grep { $_ eq $anchor } @anchors;
}

# ---------------------------------------------------------------------- commands

my $part = qr{(?:exercises|solutions|evidence|\.github|\.ci)(?:/[\w.*-]+)*/?};

# Files that a command or `code` names exist, or a command before made them:
# %$built holds NAME => SOURCE of each "-o NAME". A name in capitals is any name.
sub check_files {
  my ($where, $folder, $text, $built) = @_;
  while ($text =~ m{(?<![\w./-])(?:\.\./)*($part|convolution\.cu)(?![\w/])}g) {
    my $file = $1 =~ s{\.$}{}r;
    next if $built->{$file} || $file =~ m{/[A-Z]+(?:\.\w+)?$} && $file !~ /README/;
    fault("commands", $where, "$file does not exist")
      unless grep { -e } glob($file), glob("$folder$file");
  }
}

# A source and what it includes by "NAME", as one text.
sub whole_source {
  my ($path, $seen) = (@_, {});
  return "" if $seen->{$path}++;
  my $text = slurp($path) // return "";
  my $folder = $path =~ m{^(.*/)} ? $1 : "";
  return join "\n", $text,
    map { whole_source("$folder$_", $seen) } $text =~ /^#include "([^"]+)"/mg;
}

sub check_command {
  my ($where, $folder, $line, $built) = @_;
  $line =~ s/(?:^|\s)#.*//;
  check_files($where, $folder, $line, $built);
  for my $command (split /&&|\|\||;|\|/, $line) {
    my ($output) = $command =~ /\s-o\s+(\S+)/;
    my ($source) = $command =~ /\s(\S+\.(?:cu|cpp))(?!\S)/;
    if ($output && $source) {
      $built->{$output} = -e $source ? $source : "$folder$source";
    }
    my ($program, $arguments) = $command =~ m{(?:^|\s)\./(\w+)(.*)} or next;
    my $made_of = $built->{$program};
    if (!$made_of) {
      fault("commands", $where, "./$program is built by no command before");
      next;
    }
    my $text = whole_source($made_of);
    for my $option ($arguments =~ /\s(-{1,2}[a-z][\w-]*)/g) {
      fault("commands", $where, "$made_of knows no $option")
        unless $text =~ /"[^"\n]*\Q$option\E(?![\w-])/;
    }
  }
}

# ------------------------------------------------------------------------- a file

sub check_file {
  my ($path) = @_;
  my $folder = $path =~ m{^(.*/)} ? $1 : "";
  my @lines = split /\n/, slurp($path);
  my ($mark, %built) = ("");   # the last <!-- mark -->, until it is used
  my ($i, $measured) = (0, qr{\d ?(?:ms|us|GB/s|GiB/s|frames/s)\b});
  while ($i < @lines) {
    my $where = "line " . ($i + 1);
    my $line = $lines[$i++];
    next if $line =~ /^\s*$/;
    if ($line =~ /^\s*<!--\s*(.*?)\s*-->\s*$/) { $mark = $1; next }

    if ($line =~ /^(\s*)```(\w*)/) {
      my ($indent, $language, @block) = ($1, $2);
      while ($i < @lines && $lines[$i] !~ /^\s*```\s*$/) {
        push @block, $lines[$i++] =~ s/^$indent//r;
      }
      fault("links", $where, "this block does not end") if $i++ >= @lines;
      if ($language =~ /^(?:cpp|c|cuda|cu)$/) {
        if ($mark =~ /^from (\S+)$/) {
          my $source = slurp($1);
          my $why = defined $source ? not_excerpt(\@block, $source) : "no file";
          fault("excerpts", $where, "$1: $why") if $why;
        } elsif ($mark ne "sketch") {
          fault("excerpts", $where, "no <!-- from FILE --> before this block");
        }
      } elsif ($language =~ /^(?:sh|bash|shell|console)$/) {
        my $text = join("\n", @block) =~ s/\\\n\s*/ /gr;
        check_command($where, $folder, $_, \%built) for split /\n/, $text;
      } elsif ($mark =~ /^figures: (.*)/ && $1 ne "published") {
        check_figures($where, $1, join "\n", @block);
      } elsif ($mark !~ /^figures: / && grep { $_ =~ $measured } @block) {
        fault("figures", $where, "measured figures, and no <!-- figures: -->");
      }
      $mark = "";
      next;
    }

    # A paragraph, list or table: up to the next empty line or block.
    my @text = ($line);
    push @text, $lines[$i++]
      while $i < @lines && $lines[$i] !~ /^\s*(?:$|```|<!--)/;
    my $text = join "\n", @text;
    if ($mark =~ /^figures: (.*)/) {
      check_figures($where, $1, $text) if $1 ne "published";
    } elsif ($text =~ $measured) {
      fault("figures", $where, "measured figures, and no <!-- figures: -->");
    }
    $mark = "" unless $text =~ /^<|^#/;
    my $code = "";
    $text =~ s/(`+)(.+?)\1/$code .= "$2\n"; ""/gse;
    check_files($where, $folder, $code, \%built);
    check_link($where, $path, $_)
      for $text =~ /\]\(\s*<?([^)\s>]+)>?(?:\s+"[^"]*")?\s*\)/g,
          $text =~ /(?:src|href)="([^"]+)"/g, $text =~ /^\[[^\]]+\]:\s+(\S+)/mg;
  }
}

my @files = find_files(".", qr/\.md$/);
print "not ok - no .md files\n" unless @files;
for my $path (@files) {
  @faults = ();
  check_file($path);
  for my $kind (qw(excerpts figures links commands)) {
    my @mine = grep { $_->[0] eq $kind } @faults;
    print "ok - $kind of $path\n" unless @mine;
    print "not ok - $kind of $path: $_->[1]: $_->[2]\n" for @mine;
  }
}
