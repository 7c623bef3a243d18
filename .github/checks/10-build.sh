#!/bin/sh
# Builds, warnings, formatting, and skeletons beside their solutions.
# SPDX-License-Identifier: MIT
. "$(dirname "$0")/../lib.sh"
cd "$ROOT" || exit 1

exercises='two_pass rotate90 frames frames_thrust frames_cccl'

# --------------------------------------------------- what nvcc is there, if any

# Of 75, 80 and 90, those that this nvcc can compile for.
archs=
toolkit=0
if have nvcc; then
  nvcc --list-gpu-arch >"$WORK/archs" 2>/dev/null || : >"$WORK/archs"
  toolkit=$(nvcc --version | sed -n 's/.*release \([0-9]*\).*/\1/p')
  for arch in 75 80 90; do
    if grep -qx "compute_$arch" "$WORK/archs"; then
      archs="$archs $arch"
    else
      skip "nvcc for sm_$arch" "this nvcc does not know it"
    fi
  done
fi

# spills LOG: the kernels in a -Xptxas -v log that spill registers or keep a
# stack; kernels of the toolkit's own libraries apart. Fails if it has none.
spills() {
  awk '
    /Function properties for/ { name = $NF; next }
    /bytes stack frame/ {
      if (name ~ /cub|thrust/) next
      ++kernels
      if ($0 !~ /^ *0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads/)
        print name ":" $0
    }
    END { if (!kernels) print "no kernel is in it" }' "$1"
}

# ---------------------------------------------------------------- single builds

# nvcc_builds FILE: for all of them in one call, without warnings or spills.
nvcc_builds() {
  name="nvcc builds $1"
  if [ "$(basename "$1")" = frames_cccl.cu ] && [ "$toolkit" -lt 13 ]; then
    skip "$name" "it asks for CUDA 13, this is $toolkit"
    return
  fi
  # The libraries' kernels are not ours, and take long.
  builds=$archs
  ! needs_toolkit "$1" || builds=${archs%% [89]0*}
  codes=
  for arch in $builds; do
    codes="$codes -gencode arch=compute_$arch,code=sm_$arch"
  done
  # shellcheck disable=SC2086
  within 600 nvcc -std=c++17 -O3 $codes $WARNINGS -Xptxas -v \
    -o "$JOB/program" "$1" >"$JOB/log" 2>&1
  judge "$name" 0 "!warning" $? "$JOB/log" || return
  spills "$JOB/log" >"$JOB/spills"
  if [ -s "$JOB/spills" ]; then
    notok "no spills in $1" "stack or spills" "$JOB/spills"
  else
    ok "no spills in $1"
  fi
}

# nogpu_builds "FILE COMPILER": by the stand-in, without warnings.
nogpu_builds() {
  compiler=${1#* }
  # shellcheck disable=SC2086
  CXX=$compiler within 300 sh exercises/no-gpu/nvcc -std=c++17 -O1 -arch=sm_75 \
    $WARNINGS -o "$JOB/program" "${1% *}" >"$JOB/log" 2>&1
  judge "$compiler builds ${1% *} without a GPU" 0 "!warning" $? "$JOB/log"
}

# A skeleton compiles, or else asks for predictions by static_assert and for
# nothing more. Then it compiles with those of the solution filled in.
# skeleton_builds "FILE COMPILER"
skeleton_builds() {
  file=${1% *}
  compiler=${1#* }
  mkdir "$JOB/exercises"
  cp convolution.cu "$JOB/"
  cp -R exercises/. "$JOB/exercises/"
  chmod -R u+w "$JOB"
  compile_skeleton
  code=$?
  if [ "$code" = 0 ]; then
    judge "$compiler builds $file as shipped" 0 "!warning" 0 "$JOB/log"
    return
  fi
  grep 'error' "$JOB/log" | grep -v 'static.assert' |
    grep -Ev 'errors? (generated|detected)' >"$JOB/other"
  if [ -s "$JOB/other" ] || ! grep -q 'static.assert' "$JOB/log"; then
    notok "$compiler builds $file as shipped" "exit $code" "$JOB/log"
    return
  fi
  ok "$file does not compile before the predictions, by $compiler"
  perl "$ROOT/.github/skeleton.pl" predictions "$file" \
    "solutions/${file#exercises/}" >"$JOB/$file"
  compile_skeleton
  judge "$compiler builds $file with predictions" 0 "!warning" $? "$JOB/log"
}
compile_skeleton() {
  (
    cd "$JOB" || exit 1
    set -- -std=c++17 -O1 -arch=sm_75 -c -o program.o "$file"
    if [ "$compiler" = nvcc ]; then
      # shellcheck disable=SC2086
      within 300 nvcc $WARNINGS "$@"
    else
      # shellcheck disable=SC2086
      CXX=$compiler within 300 sh exercises/no-gpu/nvcc $WARNINGS "$@"
    fi
  ) >"$JOB/log" 2>&1
}

# cpp_builds "FILE COMPILER"
cpp_builds() {
  within 300 "${1#* }" -std=c++17 -O1 -Wall -Wextra -Werror -pedantic \
    -o "$JOB/program" "${1% *}" >"$JOB/log" 2>&1
  judge "${1#* } builds ${1% *}" 0 "!warning" $? "$JOB/log"
}

# Those that 60-frames builds and runs without a GPU only where CCCL's headers are.
needs_toolkit() {
  grep -Eq '^#include <(thrust|cub|cuda)/' "$1"
}

# by_nvcc FILE: is it for this nvcc to build? frames_cccl.cu asks for CUDA 13;
# where that is, it brings frames_thrust.cu along, which it includes.
by_nvcc() {
  case $1 in
    */frames_thrust.cu) [ -n "$archs" ] && [ "$toolkit" -lt 13 ] ;;
    exercises/frames_cccl.cu) [ -n "$archs" ] && [ "$toolkit" -ge 13 ] ;;
    *) [ -n "$archs" ] ;;
  esac
}

job() { "${1%% *}" "${1#* }"; }

# ------------------------------------------------------------ everything at once

compilers=
for compiler in g++ clang++ "$CXX"; do
  case " $compilers " in
    *" $compiler "*) continue ;;
  esac
  if have "$compiler"; then
    # c++ is one of the two under another name, most of the time.
    [ "$compiler" = c++ ] && [ -n "$compilers" ] || compilers="$compilers $compiler"
  else
    skip "$compiler" "it is not installed"
  fi
done

set --
[ -n "$archs" ] || skip "nvcc builds" "nvcc is not installed"
for name in $exercises; do
  for file in "solutions/$name.cu" "exercises/$name.cu"; do
    [ -f "$file" ] || notok "$file" "it is not there"
  done
done
for file in convolution.cu solutions/*.cu exercises/*.cu; do
  [ -f "$file" ] || continue
  # Without a GPU the scripts that run an exercise build it, without warnings too;
  # here are the lesson, with each compiler, and what must not compile at first.
  case $file in
    exercises/*)
      ! by_nvcc "$file" || set -- "$@" "skeleton_builds $file nvcc"
      [ "$file" != exercises/two_pass.cu ] ||
        set -- "$@" "skeleton_builds $file $CXX"
      ;;
    *)
      ! by_nvcc "$file" || set -- "$@" "nvcc_builds $file"
      [ "$file" = convolution.cu ] || continue
      for compiler in $compilers; do
        set -- "$@" "nogpu_builds $file $compiler"
      done
      ;;
  esac
done
for compiler in $compilers; do
  if [ -f exercises/grade.cpp ]; then
    set -- "$@" "cpp_builds exercises/grade.cpp $compiler"
  fi
done
[ -f exercises/grade.cpp ] || notok "exercises/grade.cpp" "it is not there"
run_parallel job "$@"

# The spill reader must see a spill, and an empty log.
{
  echo "ptxas info    : Function properties for _Z4bluri"
  echo "    8 bytes stack frame, 4 bytes spill stores, 4 bytes spill loads"
} >"$WORK/log"
if [ -n "$(spills "$WORK/log")" ] && [ -n "$(spills /dev/null)" ]; then
  ok "a spill would be seen"
else
  notok "a spill would be seen" "it was not"
fi

# ------------------------------------------------------- skeletons and solutions

if [ -d solutions ]; then
  perl .github/skeleton.pl compare exercises solutions
fi
# The comparison must see each of these.
mkdir -p "$WORK/e" "$WORK/s"
cat >"$WORK/good" <<'EOS'
int before;
// TODO(you): about 2 lines
int one;
int two;
// end TODO
int after;
EOS
# sees NAME WORDS SED-OF-SKELETON SED-OF-SOLUTION
sees() {
  sed -e '/^int one/d' -e '/^int two/d' -e "$3" "$WORK/good" >"$WORK/e/x.cu"
  sed -e "$4" "$WORK/good" >"$WORK/s/x.cu"
  perl .github/skeleton.pl compare "$WORK/e" "$WORK/s" >"$WORK/said" 2>&1
  if grep -qF -e "$2" "$WORK/said"; then
    ok "skeletons: $1"
  else
    notok "skeletons: $1" "no \"$2\"" "$WORK/said"
  fi
}
sees "a good pair passes" "ok - x.cu" '' ''
sees "an edit outside the markers" "not ok - x.cu: line 6" 's/after/later/' ''
sees "a line too many at the end" "not ok - x.cu: line 7" '' 's/^int after.*/&\
int more;/'
sees "nothing to fill in" "not ok - x.cu: has no TODO" '/TODO/d' '/TODO/d'
sees "a marker that is not closed" "not ok - x.cu: " '/end/d' ''
sees "a skeleton that is a solution" "not ok - x.cu: line 2: nothing" \
  's/^\/\/ TODO.*/&\
int one;\
int two;/' ''
sees "a length that is not so" "says about 9 lines, the solution has 2" \
  's/2 lines/9 lines/' 's/2 lines/9 lines/'
rm -f "$WORK/e/x.cu"
perl .github/skeleton.pl compare "$WORK/e" "$WORK/s" >"$WORK/said" 2>&1
judge "skeletons: a solution without one" 1 "not ok - x.cu: exercises" $? "$WORK/said"

# ------------------------------------------------------------- style of the files

if ! have clang-format; then
  skip "formatting" "clang-format is not installed"
else
  for file in $(repo_files '\.(cuh?|cpp|h)$'); do
    clang-format "$file" | diff "$file" - >"$WORK/format"
    lines=$(grep -c '^[<>]' "$WORK/format")
    if [ "$lines" = 0 ]; then
      ok "formatting of $file"
    else
      notok "formatting of $file" "$lines lines of a diff; clang-format -i mends it"
    fi
  done
  cp .clang-format "$WORK/"
  printf 'int f() {\n  return  1; }\n' >"$WORK/bad.cpp"
  if clang-format "$WORK/bad.cpp" | diff "$WORK/bad.cpp" - >/dev/null; then
    notok "bad formatting would be seen" "it was not"
  else
    ok "bad formatting would be seen"
  fi
fi

# Shell: every script says #!/bin/sh, parses, and pleases shellcheck.
set --
for file in $(repo_files '^\.ci/run$|\.sh$|^exercises/no-gpu/[^.]*$'); do
  case $(head -n 1 "$file") in
    '#!/bin/sh' | '# shellcheck shell=sh') set -- "$@" "$file" ;;
    *) case $file in *.sh | .ci/run) notok "$file" "its first line is not #!/bin/sh" ;; esac ;;
  esac
done
for file; do
  sh -n "$file" 2>"$WORK/said" || notok "sh -n $file" "it does not parse" "$WORK/said"
done
if ! have shellcheck; then
  skip "shellcheck" "it is not installed"
elif shellcheck -S warning -e SC1091 "$@" >"$WORK/said" 2>&1; then
  ok "shellcheck of $# scripts"
else
  notok "shellcheck" "it found something" "$WORK/said"
fi
for file in $(repo_files '\.pl$'); do
  if perl -wc "$file" >"$WORK/said" 2>&1; then
    ok "perl -wc $file"
  else
    notok "perl -wc $file" "it does not parse" "$WORK/said"
  fi
done
