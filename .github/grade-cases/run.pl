# Holds the grader to the cases of cases.txt, and prints a result line a case.
# SPDX-License-Identifier: MIT
#
#   perl run.pl cases.txt FOLDER GRADE [OPTION]...
# FOLDER holds the bases gate.txt, lesson.txt and nogpu.txt.
use strict;
use warnings;
my ($list, $folder, @grade) = @ARGV;
my %base;
for my $name (qw(gate lesson nogpu)) {
  open my $in, "<", "$folder/$name.txt" or die "$name.txt: $!\n";
  local $/;
  $base{$name} = <$in>;
}
my ($failed, %seen) = (0);
open my $cases, "<", $list or die "$list: $!\n";
while (<$cases>) {
  s/\s+$//;
  next if /^\s*(#|$)/;
  my ($name, $from, $edit, $exit, $words) = split / ;; /;
  my @amiss;
  my ($kind, @options) = split " ", $from;
  push @amiss, "a second case of this name" if $seen{$name}++;
  $_ = $base{$kind} // "";
  my $before = $_;
  my $done = $edit eq "-" || eval $edit;
  push @amiss, "the edit is not Perl: $@" if $@;
  push @amiss, "the edit changes nothing"
      if $edit ne "-" && (!$done && $_ eq $before || $_ eq $before);
  open my $out, ">", "$folder/case.txt" or die "case.txt: $!\n";
  binmode $out;
  print $out $_;
  close $out or die "case.txt: $!\n";
  open my $said, "-|", @grade, @options, "$folder/case.txt"
      or die "$grade[0]: $!\n";
  my $text = do { local $/; <$said> } // "";
  close $said;
  my $code = $? & 127 ? "signal " . ($? & 127) : $? >> 8;
  push @amiss, "exit $code, want $exit" if $code ne $exit;
  for my $word (split / && /, $words) {
    if ($word =~ /^!(.+)/) {
      push @amiss, "it says \"$1\"" if index($text, $1) >= 0;
    } else {
      push @amiss, "no \"$word\"" if index($text, $word) < 0;
    }
  }
  if (@amiss) {
    ++$failed;
    print "not ok - graded: $name: ", join("; ", @amiss), "\n";
    $text =~ s/^/#   /gm;
    print $text;
  } else {
    print "ok - graded: $name\n";
  }
}
exit($failed ? 1 : 0);
