#!/usr/bin/env perl
# Sets skeletons beside their solutions: exercises/X and solutions/X may differ
# only between the markers  // TODO(you): about N lines  and  // end TODO.
# SPDX-License-Identifier: MIT
#
#   perl skeleton.pl compare EXERCISES SOLUTIONS     a result line a pair
#   perl skeleton.pl predictions SKELETON SOLUTION   prints the skeleton with
#       its first block, the predictions, filled in
use strict;
use warnings;

# A file as a list of parts: text outside the markers, and blocks inside.
# A part is { block, line (of its first line), about, text }.
sub parts {
  my ($path) = @_;
  my @parts = ({ block => 0, line => 1, text => [] });
  open my $in, "<", $path or return "cannot be read: $!";
  while (my $line = <$in>) {
    if ($line =~ m{^\s*// TODO\(you\)}) {
      return "line $.: a TODO inside a TODO" if $parts[-1]{block};
      my ($about) = $line =~ m{^\s*// TODO\(you\): about (\d+) lines?\b}
        or return "line $.: want \"// TODO(you): about N lines\"";
      push @{ $parts[-1]{text} }, $line;
      push @parts, { block => 1, line => $., about => $about, text => [] };
    } elsif ($line =~ m{^\s*// end TODO\s*$}) {
      return "line $.: end TODO, and none is open" unless $parts[-1]{block};
      push @parts, { block => 0, line => $., text => [$line] };
    } else {
      push @{ $parts[-1]{text} }, $line;
    }
  }
  return "line $parts[-1]{line}: this TODO has no \"// end TODO\""
    if $parts[-1]{block};
  return \@parts;
}

# What is amiss with a pair, or nothing.
sub amiss {
  my ($skeleton, $solution) = @_;
  my ($mine, $theirs) = (parts($skeleton), parts($solution));
  return "exercises: $mine" unless ref $mine;
  return "solutions: $theirs" unless ref $theirs;
  return "has no TODO" if @$mine == 1;
  return scalar(@$mine) . " parts, the solution has " . scalar(@$theirs)
    if @$mine != @$theirs;
  for my $i (0 .. $#$mine) {
    my ($a, $b) = ($mine->[$i], $theirs->[$i]);
    if ($a->{block}) {
      return "line $a->{line}: nothing is left to fill in"
        if join("", @{ $a->{text} }) eq join("", @{ $b->{text} });
      # Lines of code: no blank ones, no comments, no text of a string.
      my $lines = grep { !m{^\s*(//|"|$)} } @{ $b->{text} };
      return "line $a->{line}: says about $a->{about} lines, the solution has"
        . " $lines" if abs($lines - $a->{about}) > 2 + 0.25 * $a->{about};
      next;
    }
    my $last = @{ $a->{text} } > @{ $b->{text} } ? $#{ $a->{text} }
                                                 : $#{ $b->{text} };
    for (0 .. $last) {
      my ($x, $y) = map { $_ // "(end)" } $a->{text}[$_], $b->{text}[$_];
      return "line " . ($b->{line} + $_) . " of the solution is not that of"
        . " the skeleton" if $x ne $y;
    }
  }
  return;
}

my ($command, $left, $right) = @ARGV;
if (@ARGV == 3 && $command eq "compare") {
  my $failed = 0;
  my @names = map { s{.*/}{}r } glob("$right/*.cu");
  for my $name (@names) {
    my $why = amiss("$left/$name", "$right/$name");
    if ($why) { print "not ok - $name: $why\n"; $failed = 1 }
    else { print "ok - $name: skeleton and solution differ in TODO alone\n" }
  }
  exit $failed;
}
if (@ARGV == 3 && $command eq "predictions") {
  my ($mine, $theirs) = (parts($left), parts($right));
  die "$left: $mine\n" unless ref $mine;
  die "$right: $theirs\n" unless ref $theirs;
  die "no TODO\n" if @$mine < 2 || @$theirs < 2;
  $mine->[1] = $theirs->[1];
  print map { @{ $_->{text} } } @$mine;
  exit 0;
}
die "usage: skeleton.pl compare|predictions LEFT RIGHT\n";
