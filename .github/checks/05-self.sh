#!/bin/sh
# The check itself: that it fails when it should.
# SPDX-License-Identifier: MIT
. "$(dirname "$0")/../lib.sh"

# A small repository, in a path with a space, that can't be written to.
repo="$WORK/a copy"
mkdir -p "$repo/.github/checks" "$repo/exercises/no-gpu"
cp "$ROOT/.github/check.sh" "$ROOT/.github/lib.sh" "$ROOT/.github/faults.sh" \
  "$repo/.github/"

# ------------------------------------------------------------------ check.sh

add_check() {
  {
    # shellcheck disable=SC2016
    echo '. "$(dirname "$0")/../lib.sh"'
    cat
  } >"$repo/.github/checks/$1.sh"
}
add_check 10-good <<'EOS'
expect "a good command" 0 "one && two && !three" echo one two
skip "a thing" "it is not here"
echo "plain text"
EOS
add_check 20-silent <<'EOS'
echo "it prints no result"
EOS
add_check 30-dies <<'EOS'
ok "half of it"
exit 7
EOS
add_check 40-hangs <<'EOS'
ok "and then it hangs"
sleep 60
EOS
add_check 50-words <<'EOS'
expect "lacks a word" 0 "one && four" echo one two
expect "says a wrong word" 0 "one && !two" echo one two
expect "wrong exit" 0 "one" sh -c 'echo one; exit 3'
expect "fails" 1 "one" echo one
expect "any failure" fail "" sh -c 'exit 9'
expect "no failure" fail "" true
expect "crashes" 1 "" sh -c 'kill -SEGV $$'
expect "crash is no failure" fail "" sh -c 'kill -SEGV $$'
expect -t 1 "hangs" 0 "" sleep 60
expect "no such command" 0 "" ./none
EOS
add_check 60-pool <<'EOS'
work() {
  sleep "0.$((9 - 3 * $1))"
  [ "$1" != 2 ] || exit 5
  ok "item $1"
}
run_parallel work 1 2 3
[ -z "$(ls "$WORK")" ] || notok "leaves nothing behind" "$(ls "$WORK")"
EOS
chmod -R a-w "$repo"
check() { env JOBS=3 CHECK_LIMIT=3 TMPDIR="$WORK" sh "$repo/.github/check.sh" "$@"; }

cd /
check 10 >"$WORK/one" 2>&1
judge "check.sh counts a good script" 0 "ok - a good command" $? "$WORK/one"
if [ "$(tail -n 1 "$WORK/one")" = "1 passed, 0 failed, 1 skipped" ]; then
  ok "check.sh ends with its counts"
else
  notok "check.sh ends with its counts" "it ends otherwise" "$WORK/one"
fi

check >"$WORK/all" 2>&1
judge "check.sh fails when a script does" 1 \
  "not ok - 20-silent: printed no result && not ok - 30-dies: exit 7 && not ok - 40-hangs: stopped after 3 s && 6 passed, 13 failed, 1 skipped" \
  $? "$WORK/all"
for line in \
  'not ok - lacks a word: no "four".' \
  'not ok - says a wrong word: it says "two".' \
  'not ok - wrong exit: exit 3, want 0.' \
  'not ok - fails: exit 0, want 1.' \
  'ok - any failure' \
  'not ok - no failure: exit 0, want a failure.' \
  'not ok - crashes: ended by signal 11, want exit 1.' \
  'not ok - crash is no failure: ended by signal 11.' \
  'not ok - hangs: stopped, it took too long.' \
  'not ok - no such command: exit 127, want 0.' \
  'not ok - work 2: exit 5'; do
  if grep -qxF -e "$line" "$WORK/all"; then
    ok "expect: $line"
  else
    notok "expect: $line" "no such line" "$WORK/all"
  fi
done
case $(grep -n 'item 1\|work 2\|item 3' "$WORK/all" | cut -d: -f2 | tr '\n' ' ') in
  'ok - item 1 not ok - work 2 ok - item 3 '*) ok "run_parallel keeps the order" ;;
  *) notok "run_parallel keeps the order" "it does not" "$WORK/all" ;;
esac

check --none >"$WORK/one" 2>&1
judge "check.sh refuses an unknown option" 2 "check.sh -l" $? "$WORK/one"
check nothing-of-that-name >"$WORK/one" 2>&1
judge "check.sh refuses an unknown name" 2 "no check is called that" $? "$WORK/one"
(CXX=no-such-compiler && export CXX && check 10) >"$WORK/one" 2>&1
judge "check.sh says that there is no compiler" 1 \
  "no-such-compiler && apt-get install g++ && !passed" $? "$WORK/one"
mkdir "$WORK/bin"
for tool in sh dirname grep sed cat; do
  ln -s "$(command -v "$tool")" "$WORK/bin/$tool"
done
env JOBS=1 PATH="$WORK/bin" sh "$repo/.github/check.sh" 10 >"$WORK/one" 2>&1
judge "check.sh says that there is no Perl" fail \
  "apt-get install perl && !passed" $? "$WORK/one"

# ----------------------------------------------------------------- faults.sh

chmod -R u+w "$repo"
cat >"$repo/exercises/no-gpu/nvcc" <<'EOS'
for word; do
  shift
  case $word in
    -arch=* | -lineinfo | -Xcompiler) ;;
    *.cu) set -- "$@" -x c++ "$word" ;;
    *) set -- "$@" "$word" ;;
  esac
done
exec "$CXX" "$@"
EOS
printf '#!/bin/sh\n' | cat - "$repo/exercises/no-gpu/nvcc" >"$WORK/bin/nvcc"
# shellcheck disable=SC2016
printf '#!/bin/sh\nshift 4\n"$@" || exit 99\n' >"$WORK/bin/compute-sanitizer"
chmod +x "$WORK/bin/nvcc" "$WORK/bin/compute-sanitizer"
cat >"$repo/convolution.cu" <<'EOS'
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static_assert(sizeof(char) == 1, "a char is one byte");
int twice(int x) {
  const int y = x * 2;
  return y;
}
int half(int x) {
  const int y = x / 2;
  return y;
}
int main(int argc, char** argv) {
  const char* order = getenv("ORDER");
  if (argc > 1 && !strcmp(argv[1], "--fail")) return 1;
  while (argc > 1 && !strcmp(argv[1], "--loop")) if (twice(2) == 4) break;
  if (twice(3) != 6) { printf("twice(3) is %d, want 6\n", twice(3)); return 1; }
  if (order && half(8) != 4) { printf("half(8) is wrong\n"); return 1; }
  printf("result: pass\n");
}
EOS
cat >"$WORK/list" <<'EOS'
# name ;; file ;; edit ;; run ;; exit ;; words ;; where
twice adds ;; convolution.cu ;; swap('x*2', 'x + 2') ;; - ;; 1 ;; twice(3) is 5 && !pass ;; both
half ;; convolution.cu ;; inside('int half(', 'const int y = x / 2', 'const int y = x / 3') ;; ORDER=1 --any ;; 1 ;; half(8) is wrong ;; no-gpu: no order there
memory ;; convolution.cu ;; s/twice\(3\) != 6/twice(2000000000) != 6/ ;; --sanitize // sanitizer-tool=memcheck --loop ;; 1 // 99 ;; signed integer overflow // nothing ;; both
two edits ;; convolution.cu ;; swap('x * 2', 'x * 3') and s/want 6/want six/ ;; - ;; 1 ;; want six ;; both
compile ;; convolution.cu ;; s/== 1,/== 2,/ ;; - ;; build ;; a char is one byte ;; both
race ;; convolution.cu ;; swap('x * 2', 'x * 3') ;; sanitizer-tool=racecheck ;; 99 ;; twice(3) is 9 ;; gpu: the order is fixed here
EOS
faults() {
  env CHECK_RUN= FAULT_LIMIT=2 TMPDIR="$WORK" sh "$repo/.github/faults.sh" "$@"
}
grep -v '^memory' "$WORK/list" >"$WORK/good"
faults "$WORK/list" >"$WORK/one" 2>&1
judge "faults.sh sees planted faults caught" 0 \
  "ok - unedited convolution.cu builds, with sanitizers && ok - unedited convolution.cu passes with ORDER=1 --any && ok - fault twice adds && ok - fault half && ok - fault memory && ok - fault two edits && ok - fault compile && skip - fault race: the order is fixed here && caught without a GPU: 5 of 6" \
  $? "$WORK/one"
env GPU=1 PATH="$WORK/bin:$PATH" CHECK_RUN= TMPDIR="$WORK" \
  sh "$repo/.github/faults.sh" "$WORK/good" >"$WORK/one" 2>&1
judge "faults.sh with a GPU" 0 \
  "ok - fault twice adds && skip - fault half: no order there && ok - fault race && under racecheck && caught with a GPU: 4 of 5" \
  $? "$WORK/one"
faults --only "two e" "$WORK/list" >"$WORK/one" 2>&1
judge "faults.sh --only" 0 "ok - fault two edits && !twice adds && 1 of 1" $? "$WORK/one"

# bad NAME WORDS FIELDS: a list of this one line must fail, with these words.
bad() {
  echo "$3" >"$WORK/bad"
  faults "$WORK/bad" >"$WORK/one" 2>&1
  judge "faults.sh fails: $1" 1 "$2" $? "$WORK/one"
}
e="swap('x * 2', 'x + 2')"
bad "not caught" 'not ok - fault n: exit 0, want 1. no "half".' \
  "n ;; convolution.cu ;; swap('x / 2', 'x / 3') ;; - ;; 1 ;; half ;; both"
bad "caught by other words" 'not ok - fault n: no "nothing". && twice(3) is 5' \
  "n ;; convolution.cu ;; $e ;; - ;; 1 ;; nothing ;; both"
bad "the words are in the edit alone" 'not ok - fault n: no "x + 2".' \
  "n ;; convolution.cu ;; $e ;; - ;; 1 ;; x + 2 ;; both"
bad "caught by another exit code" 'not ok - fault n: exit 1, want 3.' \
  "n ;; convolution.cu ;; $e ;; - ;; 3 ;; twice ;; both"
bad "hangs" 'not ok - fault n: stopped, it took too long.' \
  "n ;; convolution.cu ;; swap('x * 2', 'x * 3') ;; --loop ;; 1 ;; twice ;; both"
bad "crashes" 'not ok - fault n: ended by signal' \
  "n ;; convolution.cu ;; swap('x * 2', '*(volatile int*)0') ;; - ;; 1 ;; x ;; both"
bad "does not compile" 'not ok - fault n: it does not compile' \
  "n ;; convolution.cu ;; swap('x * 2', 'x *') ;; - ;; 1 ;; twice ;; both"
bad "compiles after all" 'not ok - fault n: exit 0, want a failure' \
  "n ;; convolution.cu ;; $e ;; - ;; build ;; twice ;; both"
bad "the unedited program fails" 'not ok - unedited convolution.cu passes with --fail: exit 1' \
  "n ;; convolution.cu ;; $e ;; --fail ;; 1 ;; twice ;; both"
bad "the edit no longer applies" 'not ok - fault n: the edit no longer applies' \
  "n ;; convolution.cu ;; s/none/some/ ;; - ;; 1 ;; twice ;; both"
bad "the edit changes nothing" 'not ok - fault n: the edit no longer applies' \
  "n ;; convolution.cu ;; s/half/half/g ;; - ;; 1 ;; twice ;; both"
bad "the edit fits two places" 'not ok - fault n: the edit does not apply: a second place' \
  "n ;; convolution.cu ;; s/return y/return 0/ ;; - ;; 1 ;; twice ;; both"
bad "swap fits two places" 'not ok - fault n: the edit does not apply: 2 places' \
  "n ;; convolution.cu ;; swap('return y', 'return 0') ;; - ;; 1 ;; twice ;; both"
bad "swap takes whole words" 'not ok - fault n: the edit does not apply: 0 places' \
  "n ;; convolution.cu ;; swap('hal', 'x') ;; - ;; 1 ;; twice ;; both"
bad "inside stays inside" 'not ok - fault n: the edit does not apply: 0 places' \
  "n ;; convolution.cu ;; inside('int twice(', 'x / 2', 'x') ;; - ;; 1 ;; twice ;; both"
bad "the edit is no Perl" 'not ok - fault n: the edit is not Perl' \
  "n ;; convolution.cu ;; swap( ;; - ;; 1 ;; twice ;; both"
bad "no such file" 'not ok - fault n: none.cu: No such file' \
  "n ;; none.cu -> convolution.cu ;; $e ;; - ;; 1 ;; twice ;; both"
bad "a field is missing" 'fields, want 7' "n ;; convolution.cu ;; $e ;; 1 ;; twice ;; both"
bad "no words" 'no words' "n ;; convolution.cu ;; $e ;; - ;; 1 ;;  ;; both"
bad "exit 0 is no failure" 'EXIT is "0"' "n ;; convolution.cu ;; $e ;; - ;; 0 ;; twice ;; both"
bad "missed on one side without a reason" 'WHERE is "gpu"' \
  "n ;; convolution.cu ;; $e ;; - ;; 1 ;; twice ;; gpu"
bad "the same name twice" 'a second fault "n"' \
  "n ;; convolution.cu ;; $e ;; - ;; 1 ;; twice ;; both
n ;; convolution.cu ;; $e ;; - ;; 1 ;; twice ;; both"
bad "an empty list" 'no such fault' "# nothing"
find "$WORK" -name 'tmp.*' -o -name '*program*' >"$WORK/one"
if [ ! -s "$WORK/one" ]; then
  ok "neither of them leaves anything behind"
else
  notok "neither of them leaves anything behind" "they left files" "$WORK/one"
fi
