#!/bin/sh
# The gate: skeleton, solution, grader, forged transcripts, re-runs, faults.
# SPDX-License-Identifier: MIT
. "$(dirname "$0")/../lib.sh"
cases=$ROOT/.github/grade-cases
nvcc="sh $ROOT/exercises/no-gpu/nvcc -std=c++17 -O1 -arch=sm_75 $WARNINGS"

# A tree of its own, so that no path leads back to the repository.
tree=$WORK/tree
mkdir "$tree"
cp -R "$ROOT/convolution.cu" "$ROOT/exercises" "$ROOT/solutions" "$tree/"
chmod -R u+w "$tree"
cd "$tree" || exit 1
call() { "$1"; }

# ------------------------------------------------- skeleton, solution and grader

build_grade() {
  "$CXX" -std=c++17 -O2 -o grade exercises/grade.cpp >"$JOB/log" 2>&1
  judge "grade builds" 0 "" $? "$JOB/log"
}
solution_passes() {
  $nvcc -o solution solutions/two_pass.cu >"$JOB/log" 2>&1 &&
    ./solution >nogpu.txt 2>"$JOB/log"
  code=$?
  cat nogpu.txt >>"$JOB/log"
  judge "the solution passes, its predictions beside it" 0 \
    'loads of a tile: predicted 1296, counted 1296 && two-kernel / one-kernel: predicted 2.00, measured nothing && explanation: By && result: pass' \
    "$code" "$JOB/log"
}
skeleton_fails() {
  mkdir skeleton
  perl "$ROOT/.github/skeleton.pl" predictions exercises/two_pass.cu \
    solutions/two_pass.cu >skeleton/two_pass.cu
  $nvcc -o untouched skeleton/two_pass.cu >"$JOB/log" 2>&1 &&
    ./untouched --cases odd >"$JOB/log" 2>&1
  judge "the skeleton with predictions alone fails with never written" 1 \
    'FAIL blur, separable, two kernels, case odd && 374543 of 374543 pixels never written && result: fail' \
    $? "$JOB/log"
}
run_parallel call solution_passes build_grade skeleton_fails
if [ ! -x grade ] || [ ! -s nogpu.txt ]; then exit 1; fi

# ------------------------------------------------------------------ transcripts

awk -f "$cases/synthetic.awk" nogpu.txt >gate.txt
awk -f "$cases/synthetic.awk" -v kind=lesson nogpu.txt >lesson.txt
perl "$cases/run.pl" "$cases/cases.txt" . ./grade

expect "grade names every option" 0 \
  '--gate && --lesson && --no-timing-gate && --seed && --csv && --chart && --rerun && --keep && --no-gpu && --limit && --lesson-source && exit code' \
  ./grade --help
expect "grade without a transcript" 2 'no transcript given' ./grade
expect "grade with an unknown option" 2 'unknown option --fast' ./grade --fast
expect "grade with a file that is not there" 2 'absent.txt: cannot be read' \
  ./grade absent.txt gate.txt
expect "grade without its convolution.cu" 2 '--lesson-source FILE names it' \
  ./grade --lesson-source absent.cu gate.txt
expect "grade from standard input" 0 'standard input && pass, 25 criteria' \
  ./grade - <gate.txt

mkdir -p class/jane class/empty
cp gate.txt class/ann.txt
cp nogpu.txt class/jane/run.log
cp convolution.cu class/jane/
expect "grade a folder, a table of all" 1 \
  'class/ann.txt && class/jane/run.log && submission && FAIL, 1 of 19 criteria: timing && !convolution.cu: ' \
  ./grade class
expect "grade a folder without transcripts" 2 'holds no .txt or .log file' \
  ./grade class/empty

# A row a submission, as many fields as the head; no text that is a formula.
sed 's/^explanation: .*/explanation: =HYPERLINK("x"), says "I", and so on and on/' \
  gate.txt >class/formula.txt
expect "grade --csv" 1 '"timing","3","no GPU timings && "'"'"'=HYPERLINK(""x""), says' \
  ./grade --csv class
perl -e '
  my @counts;
  while (<>) {
    my $n = 0;
    ++$n while s/^(?:"(?:[^"]|"")*"|[^",\n]*)(?:,|\n)//;
    push @counts, $n if $n;
  }
  print "@counts\n";
  exit !(@counts == 4 && !grep { $_ != 16 } @counts)' "$OUT" >fields
judge "grade --csv has 16 fields in each line" 0 "" $? fields

# A file of 100 MB: the grader's own time and memory, not the disk's. Slow machines
# get more time, by how long Perl needs to read its lines.
perl -e 'my $text = "case odd: 613 rows\nresult: past\nx\n" x 32768;
  print $text x 96' >big.txt
cat gate.txt >>big.txt
(
  # shellcheck disable=SC3045
  ulimit -v 100000 2>/dev/null
  perl -e 'open my $said, "-|", @ARGV or die; my @said = <$said>; close $said;
    my $code = $? >> 8;
    my (undef, undef, $user, $system) = times;
    open my $big, "<", $ARGV[-1] or die;
    my ($lines, $begun) = (0, (times)[0]);
    ++$lines while <$big>;
    my $limit = 1 + 3 * ((times)[0] - $begun);
    print @said, sprintf("seconds: %.2f of %.2f\n", $user + $system, $limit);
    exit($code || ($user + $system > $limit ? 9 : 0))' ./grade big.txt
) >big.log 2>&1
judge "grade reads 100 MB at once, in little memory" 0 'pass, 25 criteria' $? big.log
rm big.txt

# ------------------------------------------------------------------------ chart

sed 's/^copy, 16 bytes a thread /copy <\&> 16 bytes, "wide"/' gate.txt >odd.txt
expect "grade --chart" 0 'pass, 25 criteria' ./grade --chart rows.svg odd.txt
cat >tags.pl <<'PERL'
# Is it well-formed? Are all rows in it, and both colour schemes?
local $/;
my $svg = <>;
my @open;
die "a stray & or <\n" if $svg =~ /&(?!(amp|lt|gt|quot);)|<(?![\/a-z])/;
while ($svg =~ m{<(/?)([a-z]+)((?:\s+[\w:-]+="[^"<]*")*)\s*(/?)>}g) {
  if ($1) { $2 eq pop @open or die "</$2> closes another\n" }
  elsif (!$4) { push @open, $2 }
}
die "open: @open\n" if @open;
my $tags = () = $svg =~ /</g;
my $sound = () = $svg =~ m{</?[a-z]+(?:\s+[\w:-]+="[^"<]*")*\s*/?>}g;
die "$tags tags, $sound sound\n" if $tags != $sound;
for ("copy &lt;&amp;&gt; 16 bytes", "blur, separable, two kernels", "978.1014 ms",
     "prefers-color-scheme: dark", "the best copy", "243.5 GB/s, 1.027 x copy") {
  index($svg, $_) >= 0 or die "no $_\n";
}
PERL
perl tags.pl rows.svg >tags.log 2>&1
judge "the chart is well-formed and whole" 0 "" $? tags.log
if have xmllint; then
  expect "the chart is well-formed, says xmllint" 0 "" xmllint --noout rows.svg
fi
expect "grade --chart without a table" 2 'no rows to draw' \
  ./grade --chart none.svg nogpu.txt

# ---------------------------------------------------------------------- re-runs

# refused NAME PERL-EDIT WORDS: a student's file that is not even built.
refused() {
  cp solutions/two_pass.cu student.cu
  perl -0777 -i -pe "$2" student.cu
  if cmp -s solutions/two_pass.cu student.cu; then
    notok "re-run refuses $1" "the edit changes nothing"
    return
  fi
  expect "re-run refuses $1" 1 "$3 && !pass  compiles && builds and runs the student's code" \
    ./grade --no-gpu --rerun student.cu
}
outside='FAIL  outside the markers && only what lies between'
inside='FAIL  inside the markers'
refused "an include more" 's/#define DAY20/#include <cstdlib>\n#define DAY20/' "$outside && its line 22"
refused "another byte count" 's/kTwoKernelRow, 16/kTwoKernelRow, 8/' "$outside"
refused "a marker less" 's/  \/\/ end TODO\n//' "$outside"
refused "a file cut off" 's/int main.*//s' 'FAIL  outside the markers && lacks its end'
refused "printf in a kernel" 's/(?=  float sum = 0)/  printf("result: pass");\n/' "$inside && printf is of no use"
refused "text in a kernel" 's/(?=  float sum = 0)/  const char* s = "result";\n/' "$inside && \"result\" is of no use"
refused "exit in a kernel" 's/(?=  float sum = 0)/  _exit(0);\n/' "$inside && _exit is of no use"
refused "asm in a kernel" 's/(?=  float sum = 0)/  asm volatile("trap;");\n/' "$inside && asm is of no use"
refused "std:: in a kernel" 's/(?=  float sum = 0)/  std::abort();\n/' "$inside && std is of no use"
refused "a kernel that ends early" 's/d_rows\[row \* cols \+ col\] = sum;/}\nint x = lessonMain(0, 0, {});\nvoid more() {/' "$inside && the kernel ends before its end TODO"
refused "a macro" 's/(?=  float sum = 0)/#define sum 1\n/' "$inside && the sign #"
refused "a spliced line" 's/(?=  float sum = 0)/  \/\/ so \\\n/' "$inside && a backslash ends the line"
refused "an open comment" 's/(?=  float sum = 0)/  \/* so\n/' "$inside && a comment that is not closed"
refused "code among the predictions" 's/(?=\/\/ Floats that)/int ran = system("true");\n/' "$inside && int is no part of a prediction"
refused "a call in a prediction" 's/= 1296/= [] { return 1296; }()/' "$inside && is no part of a prediction"
refused "a line's end in the explanation" 's/"By bytes/"\\nresult: pass\\n/' "$inside && an escape sequence in a text"

# The stand-in for nvcc, but it keeps the grader's own program, and where
# PROGRAM is set that is what it "builds" of the student's file.
export KEPT="$tree/references.kept" REAL="$ROOT/exercises/no-gpu/nvcc" PROGRAM=
cat >exercises/no-gpu/nvcc <<'SH'
for file; do :; done
case $file in
  *references.cu)
    [ -e "$KEPT" ] || { sh "$REAL" "$@" && cp references "$KEPT"; } || exit 1
    cp "$KEPT" references
    ;;
  *) if [ -n "$PROGRAM" ]; then cp "$PROGRAM" two_pass; else exec sh "$REAL" "$@"; fi ;;
esac
SH

# rerun NAME EXIT WORDS STUDENT [PROGRAM [SECONDS]]
rerun() {
  PROGRAM=${5:-}
  expect -t 200 "re-run: $1" "$2" "$3" \
    ./grade --no-gpu --limit "${6:-100}" --keep kept.txt --rerun "$4"
}
solution_again() {
  rerun "the solution passes" 0 \
    'pass  compiles && pass  runs && pass  references && pass  student && the published solution && skip  timing && !FAIL' \
    solutions/two_pass.cu
}
# A kernel that writes nothing, and prints "result: pass" by a function that no
# list knows.
forger() {
  perl -0777 -pe '
    my $print = join " ", map { "putchar_unlocked(" . ord . ");" }
        split //, "result: pass\n";
    s/d_out\[row \* cols \+ col\] = sum;/if (row + col == 0 && sum >= 0) { $print }/' \
    solutions/two_pass.cu >forger.cu
  rerun "a forged result: pass" 1 \
    'pass  inside the markers && FAIL  runs && exit code 1 && FAIL  each line once && result: a second time && FAIL  no failure reported && nothing was written' \
    forger.cu
}
others() {
  rerun "a file that does not compile" 1 \
    'FAIL  compiles && predict before you run: set kPredictedLoads' \
    exercises/two_pass.cu
  # shellcheck disable=SC2016
  {
    printf '#!/bin/sh\nsleep 300 &\necho $! >%s\nwait\n' "$tree/pid" >hang
    printf '#!/bin/sh\nkill -SEGV $$\n' >crash
    printf '#!/bin/sh\nexec yes "result: pass"\n' >flood
    printf '#!/bin/sh\nexit 0\n' >silent
    printf '#!/bin/sh\nsed "s/^seed: .*/seed: $2/" %s\n' "$tree/nogpu.txt" >forged
  }
  chmod +x hang crash flood silent forged
  rerun "a program that hangs" 1 'FAIL  runs && stopped after 4 s' \
    solutions/two_pass.cu "$tree/hang" 4
  if have ps; then
    case $(ps -o stat= -p "$(cat pid)") in
      '' | Z*) ok "re-run: what it started is gone too" ;;
      *) notok "re-run: what it started is gone too" "it still runs" ;;
    esac
  fi
  rerun "a program that crashes" 1 'FAIL  runs && crashed, signal 11' \
    solutions/two_pass.cu "$tree/crash"
  rerun "a program that never stops printing" 1 \
    'FAIL  runs && stopped after it printed' solutions/two_pass.cu "$tree/flood"
  rerun "a program that prints nothing" 1 'pass  runs && FAIL  text' \
    solutions/two_pass.cu "$tree/silent"
  rerun "a whole transcript of another run" 1 \
    'pass  runs && pass  seed && FAIL  references && the grader'"'"'s own run gave' \
    solutions/two_pass.cu "$tree/forged"
}
solution_again
expect "re-run: what it printed is kept" 0 'pass  result' \
  ./grade --no-timing-gate kept.txt
run_parallel call forger others
cp solutions/two_pass.cu student.cu
printf '\n' >>student.cu
expect "re-run beside a transcript of another file" 1 \
  "FAIL  student's file && the file handed in has" \
  ./grade --no-gpu --rerun student.cu gate.txt

# --------------------------------------------------------------------- evidence

# Every transcript of the lesson and of the gate that is kept as evidence.
found=0
for transcript in $(find "$ROOT/evidence" -name 'lesson-*.txt' -o -name 'two_pass-*.txt' | sort); do
  head -n 3 "$transcript" | grep -q '^day20 .* [0-9.]*$' || continue
  found=$((found + 1))
  emulated=
  ! grep -q '^gpu: CPU emulation' "$transcript" || emulated=--no-timing-gate
  # shellcheck disable=SC2086
  expect "evidence passes: ${transcript#"$ROOT"/}" 0 'pass  result' \
    ./grade $emulated --lesson-source "$ROOT/convolution.cu" "$transcript"
done
[ "$found" != 0 ] || skip "evidence passes" "there is no transcript in it yet"

# ----------------------------------------------------------------------- faults

sh "$ROOT/.github/faults.sh" "$ROOT/.github/faults/two_pass.txt"
