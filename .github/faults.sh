#!/bin/sh
# Plants faults, one at a time, and demands that each is caught by its words.
# SPDX-License-Identifier: MIT
#
#   sh .github/faults.sh [--only TEXT] LIST...         without a GPU
#   GPU=1 ARCH=sm_90 sh .github/faults.sh LIST...      with nvcc and a GPU
#
# A list has one fault a line, in seven fields, and may hold # comments:
#   NAME ;; FILE ;; EDIT ;; RUN ;; EXIT ;; WORDS ;; WHERE
#
# NAME   says what is wrong with the program: "K2 blurNaive writes nothing".
# FILE   the file to edit. Where that is not the program itself, say
#        "exercises/frames.h -> solutions/frames.cu". A .cpp is built by CXX.
# EDIT   Perl. Best are the two helpers, which compare token by token, so that
#        formatting does not matter, and demand exactly one place:
#          swap('OLD', 'NEW')              or COUNT places: swap(.., .., 3)
#          inside('ANCHOR', 'OLD', 'NEW')  in the text from ANCHOR, which the
#            file has once, to the next line that starts with }
#        Anything else works on the file in $_ and must return true, such as
#        s/OLD/NEW/, whose pattern may not fit a second time. Join several by
#        "and".
# RUN    what to run it with: VAR=value words, then the arguments; - for none.
#        A word --sanitize builds it with -fsanitize=address,undefined (no GPU
#        only); a word sanitizer-tool=racecheck runs it under compute-sanitizer
#        (GPU only), which turns its findings into exit code 99.
# EXIT   the exit code it must end with: not 0; "build" if it must not compile.
# WORDS  what it must say, on either stream, joined by " && "; !x: not x.
# WHERE  both | no-gpu: why a GPU run misses it | gpu: why only a GPU shows it
#
# RUN, EXIT and WORDS may read "A // B": A without a GPU, B with one.
# First, the unedited program must build, and exit 0 in each RUN.
# Environment: JOBS, CXX, FAULT_LIMIT (seconds for a run, 120). Exit 0 or 1.

# shellcheck source=.github/lib.sh
. "$(dirname "$0")/lib.sh"

only=
if [ "${1:-}" = --only ] && [ $# -ge 2 ]; then
  only=$2
  shift 2
fi
case ${1:--} in
  -*)
    sed -n '2,/^$/s/^# \{0,1\}//p' "$0" >&2
    exit 2
    ;;
esac
GPU=${GPU:-}
export UBSAN_OPTIONS="${UBSAN_OPTIONS:-halt_on_error=1}"
T=$(mktemp -d "$WORK/faults.XXXXXX")
mkdir "$T/fault" "$T/build" "$T/run"

# Takes the lists apart: fault/N, build/N and run/N, with a file a field.
perl - "$T" "$GPU" "$only" "$@" >"$T/parsed" <<'PERL' || { cat "$T/parsed"; exit 1; }
use strict;
my ($dir, $gpu, $only, @lists) = @ARGV;
my ($faults, $bad, %seen, %build, %run) = (0, 0);

sub store {
  my ($folder, %field) = @_;
  mkdir "$dir/$folder" or die "$folder: $!\n";
  while (my ($name, $value) = each %field) {
    open my $out, ">", "$dir/$folder/$name" or die "$name: $!\n";
    print $out $value;
  }
}

for my $list (@lists) {
  my $in;
  open $in, "<", $list or do { print "not ok - $list: $!\n"; ++$bad; next };
  while (<$in>) {
    s/\s+$//;
    next if /^\s*(#|$)/;
    my $amiss = sub { print "not ok - $list line $.: @_\n"; ++$bad };
    my @field = split / ;; /, $_, -1;
    if (@field != 7) { $amiss->(scalar @field, "fields, want 7"); next }
    s/^\s+|\s+$//g for @field;
    my ($name, $file, $edit, $run, $code, $words, $where) = @field;
    ($run, $code, $words) = map { my @mode = split m{ // }, $_;
      $gpu && @mode > 1 ? $mode[1] : $mode[0] } $run, $code, $words;
    $amiss->("a second fault \"$name\"") if $seen{$name}++;
    $amiss->("EXIT is \"$code\"") unless $code =~ /^([1-9]\d*|build)$/;
    $amiss->("no words") if $words !~ /\S/ || $words =~ /^!/ && $words !~ /&&/;
    $amiss->("WHERE is \"$where\"")
      unless $where =~ /^(both|(no-gpu|gpu): \S.*)$/;
    next if $only ne "" && index($name, $only) < 0;
    ++$faults;

    my ($edited, $program) = $file =~ /^(\S+) -> (\S+)$/ ? ($1, $2)
                                                         : ($file, $file);
    my ($sanitize, $tool) = ("", "");
    my @run = grep {
      /^--sanitize$/ ? do { $sanitize = "yes"; 0 }
      : /^sanitizer-tool=(\w+)$/ ? do { $tool = $1; 0 } : $_ ne "-"
    } split " ", $run;
    my $elsewhere = $where =~ /^no-gpu: (.*)/ && $gpu ? $1
                  : $where =~ /^gpu: (.*)/ && !$gpu ? $1 : "";
    my $build = "$program $sanitize";
    my $args = $code eq "build" ? "" : "@run";
    if ($elsewhere eq "") {
      if (!$build{$build}) {
        $build{$build} = keys(%build) + 1;
        store("build/$build{$build}", program => $program,
              sanitize => $sanitize);
      }
      my $key = "$build $tool @run";
      if ($code ne "build" && !$run{$key}) {
        $run{$key} = keys(%run) + 1;
        store("run/$run{$key}", program => $program, run => $args,
              tool => $tool, build => $build{$build});
      }
    }
    store("fault/" . sprintf("%03d", $faults), name => $name,
          edited => $edited, program => $program, edit => $edit, run => $args,
          tool => $tool, sanitize => $sanitize, code => $code,
          words => $words, where => $where, elsewhere => $elsewhere);
  }
}
if (!$faults) { print "not ok - @lists: no such fault\n"; ++$bad }
exit($bad ? 1 : 0);
PERL

# The edit itself. Prints what is amiss, and then fails.
cat >"$T/edit.pl" <<'PERL'
use strict;
my ($path, $edit) = @ARGV;
my $amiss = sub { print "@_\n"; exit 1 };

# OLD token by token, with any white space between, and only whole words.
sub pattern {
  my ($text, $last) = ("", "");
  for my $token ($_[0] =~ /\w+|[^\w\s]/g) {
    $text .= $last =~ /\w/ && $token =~ /\w/ ? '\s+' : '\s*' if $last ne "";
    $text .= quotemeta $token;
    $last = $token;
  }
  $text = "(?<!\\w)$text" if $text =~ /^\w/;
  $text = "$text(?!\\w)" if $last =~ /\w/;
  return qr/$text/;
}
sub swap {
  my ($old, $new, $count) = (@_, 1);
  my $pattern = pattern($old);
  my $found = () = /$pattern/g;
  $amiss->("the edit does not apply: $found places have \"$old\", want $count")
    if $found != $count;
  return s/$pattern/$new/g;
}
sub inside {
  my ($anchor, @swap) = @_;
  my $pattern = pattern($anchor);
  my $found = () = /$pattern/g;
  $amiss->("the edit does not apply: $found places have \"$anchor\", want 1")
    if $found != 1;
  /$pattern.*?(?:^\}|\z)/ms;
  my ($before, $part, $after) = ($`, $&, $');
  for ($part) { swap(@swap) }
  $_ = "$before$part$after";
  return 1;
}

# apply TEXT: TEXT with the edit done to it, or undef where it changes nothing.
sub apply {
  local $_ = $_[0];
  my $done = eval $edit;
  $amiss->("the edit is not Perl: $@") if $@;
  return $done && $_ ne $_[0] ? $_ : undef;
}

open my $in, "<", $path or $amiss->("$path: $!");
my $old = do { local $/; <$in> };
my $new = apply($old);
$amiss->("the edit no longer applies: it changes nothing") unless defined $new;
if ($edit !~ /\b(?:swap|inside)\s*\(/) {
  # A plain s///: what follows the change must not fit the pattern again.
  my $same = 0;
  ++$same while substr($old, -1 - $same, 1) eq substr($new, -1 - $same, 1)
      && $same < length($old) && $same < length($new);
  my $rest = $same ? substr($old, -$same) : "";
  $amiss->("the edit does not apply: a second place fits it, about line " .
           (($old =~ tr/\n//) - ($rest =~ tr/\n//) + 1) . " and below")
    if defined apply($rest);
}
open my $out, ">", $path or $amiss->("$path: $!");
print $out $new;
close $out or $amiss->("$path: $!");
PERL

# copy_tree FOLDER: the sources, to edit.
copy_tree() {
  mkdir -p "$1/.github"
  for part in convolution.cu exercises solutions .github/faults; do
    [ ! -e "$ROOT/$part" ] || cp -R "$ROOT/$part" "$1/$part"
  done
  chmod -R u+w "$1"
}

# build FOLDER PROGRAM SANITIZE LOG: makes FOLDER/program.
build() {
  (
    cd "$1" || exit 1
    set -- "$2" "$3"
    case $1,$GPU in
      *.cpp,*) set -- "$CXX" -std=c++17 -O1 ${2:+-fsanitize=address,undefined -g} "$1" ;;
      *,) set -- sh exercises/no-gpu/nvcc -std=c++17 -Xcompiler -Og -arch=sm_75 \
        ${2:+-fsanitize=address,undefined -g} "$1" ;;
      *) set -- nvcc -std=c++17 -O3 -lineinfo "-arch=${ARCH:-sm_75}" "$1" ;;
    esac
    within 300 "$@" -o program
  ) >"$4" 2>&1
}

# run FOLDER PROGRAM RUN TOOL LOG: its exit code.
run() {
  (
    cd "$1" || exit 1
    program=$1/$2
    tool=$4
    # The run is split into words at spaces; no word is a pattern.
    set -f
    # shellcheck disable=SC2086
    set -- $3
    settings=
    while [ $# -gt 0 ]; do
      case $1 in
        [A-Z_]*=*)
          settings="$settings $1"
          shift
          ;;
        *) break ;;
      esac
    done
    [ -z "$tool" ] || set -- --tool "$tool" --error-exitcode 99 "$program" "$@"
    [ -z "$tool" ] || program=compute-sanitizer
    # shellcheck disable=SC2086
    within "${FAULT_LIMIT:-120}" env $settings "$program" "$@"
  ) >"$5" 2>&1 </dev/null
}

# with RUN: how a run is named in a result line.
with() { printf '%s' "${1:+ with $1}${2:+ under $2}"; }

# One result line for each of: an unedited build, an unedited run, a fault.
work_on() {
  cd "$T/$1" || return 1
  program=$(cat program)
  case $1 in
    build/*)
      sanitize=$(cat sanitize)
      copy_tree tree
      build "$T/$1/tree" "$program" "$sanitize" log
      code=$?
      echo "$code" >code
      judge "unedited $program builds${sanitize:+, with sanitizers}" 0 "" \
        "$code" log
      ;;
    run/*)
      tool=$(cat tool)
      built=$T/build/$(cat build)
      while [ ! -e "$built/code" ]; do sleep 0.2; done
      [ "$(cat "$built/code")" = 0 ] || return 0  # said already
      sanitize=$(sed 's/.*/, with sanitizers,/' "$built/sanitize")
      copy_tree tree
      cp "$built/tree/program" tree/
      run "$PWD/tree" program "$(cat run)" "$tool" log
      code=$?
      judge "unedited $program passes$sanitize$(with "$(cat run)" "$tool")" 0 "" \
        "$code" log
      rm -rf tree
      ;;
    fault/*) plant ;;
  esac
}

plant() {
  name="fault $(cat name)"
  echo MISSED >result
  if [ -s elsewhere ]; then
    echo skipped >result
    skip "$name" "$(cat elsewhere)"
    return 0
  fi
  copy_tree tree
  if ! (cd tree && perl "$T/edit.pl" "$(cat ../edited)" "$(cat ../edit)") >log 2>&1
  then
    notok "$name" "$(head -n 1 log)"
    rm -rf tree
    return 1
  fi
  want=$(cat code)
  build "$PWD/tree" "$program" "$(cat sanitize)" log
  got=$?
  if [ "$want" = build ]; then
    want=fail
  elif [ "$got" = 0 ]; then
    run "$PWD/tree" program "$(cat run)" "$(cat tool)" log
    got=$?
  else
    notok "$name" "it does not compile" log
    rm -rf tree
    return 1
  fi
  {
    echo "What the edit did:"
    diff "$ROOT/$(cat edited)" "tree/$(cat edited)"
    echo "What was said$(with "$(cat run)" "$(cat tool)"):"
    cat log
  } >both
  # The words are sought in what was said alone.
  if amiss=$(judge "$name" "$want" "$(cat words)" "$got" log); then
    echo "$amiss"
    echo caught >result
  else
    printf '%s\n' "$amiss" | sed -n '/^not ok/p'
    remark both
  fi
  rm -rf tree
}

set --
for item in "$T"/build/* "$T"/run/* "$T"/fault/*; do
  [ ! -d "$item" ] || set -- "$@" "${item#"$T"/}"
done
run_parallel work_on "$@" | tee "$T/lines"

# The table, to be kept as evidence.
perl - "$T" "$GPU" <<'PERL'
use strict;
my ($dir, $gpu) = @ARGV;
my $get = sub { open my $in, "<", $_[0] or return ""; local $/; <$in> // "" };
my @row = (["fault", "exit", "no GPU", "GPU", "words"]);
my $caught = 0;
for my $fault (sort glob "$dir/fault/*") {
  my %f = map { $_ => $get->("$fault/$_") } qw(name code words where result);
  chomp $f{result};
  ++$caught if $f{result} eq "caught";
  my ($cpu, $card) = $gpu ? ("-", $f{result}) : ($f{result}, "-");
  $card = "not seen: $1" if $f{where} =~ /^no-gpu: (.*)/;
  $cpu = "not seen: $1" if $f{where} =~ /^gpu: (.*)/;
  push @row, [$f{name}, $f{code}, $cpu, $card, $f{words}];
}
my @width = (0) x 5;
for my $row (@row) {
  for (0 .. 4) { $width[$_] = length $row->[$_] if length $row->[$_] > $width[$_] }
}
for (@row) {
  my $line = sprintf "# %-$width[0]s  %-$width[1]s  %-$width[2]s  %-$width[3]s  %s",
      @$_;
  print "$line\n";
}
printf "# caught %s: %d of %d\n", $gpu ? "with a GPU" : "without a GPU",
    $caught, $#row;
PERL
! grep -q '^not ok - ' "$T/lines"
