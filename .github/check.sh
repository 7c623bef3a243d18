#!/bin/sh
# The one test command. Runs .github/checks/NN-name.sh side by side, as many as
# there are cores, and counts their result lines; each script's come when it is
# done, and the last line of all is "N passed, N failed, N skipped".
# SPDX-License-Identifier: MIT
#
#   sh .github/check.sh          everything; from any folder
#   sh .github/check.sh 20 docs  those with this number, or this in their name
#   sh .github/check.sh -l       lists them
#
# Environment: CXX (the C++ compiler; c++, g++ or clang++), JOBS (all cores).
# Exit: 0 all passed, 1 something failed, 2 usage. Nothing is written into the
# repository. A script that prints no result, or fails without saying what,
# has failed.

CHECK_RUN=
# shellcheck source=.github/lib.sh
. "$(dirname "$0")/lib.sh"
CHECK_RUN=1
export CHECK_RUN

TMP=$WORK
case ${1:-} in
  -l | --list)
    for script in "$ROOT"/.github/checks/[0-9]*.sh; do
      printf '%-16s %s\n' "$(basename "$script" .sh)" \
        "$(sed -n '2s/^# *//p' "$script")"
    done
    exit 0
    ;;
  -*)
    sed -n '2,/^$/s/^# \{0,1\}//p' "$0" >&2
    exit 2
    ;;
esac

# wanted NAME [PATTERN]...: is it among the patterns, or are there none?
wanted() {
  wanted_name=$1
  shift
  [ $# -gt 0 ] || return 0
  for pattern; do
    case $pattern,$wanted_name in
      [0-9][0-9],"$pattern"-*) return 0 ;;
      [0-9][0-9],*) ;;
      *,*"$pattern"*) return 0 ;;
    esac
  done
  return 1
}

count() { grep -c "^$1 - " "$2"; }

# run SCRIPT: its lines, and then how many there were of each kind.
run() {
  name=$(basename "$1" .sh)
  WORK=$TMP/$name
  lines=$TMP/$name.lines
  mkdir "$WORK"
  printf '# %s\n' "$name"
  start=$(date +%s)
  {
    JOBS=$share within "${CHECK_LIMIT:-1200}" sh "$1" </dev/null
    echo $? >"$TMP/$name.code"
  } 2>&1 | tee "$lines"
  code=$(cat "$TMP/$name.code")
  if [ "$code" = 124 ]; then
    notok "$name" "stopped after ${CHECK_LIMIT:-1200} s" | tee -a "$lines"
  elif [ "$code" != 0 ] && [ "$(count 'not ok' "$lines")" = 0 ]; then
    notok "$name" "exit $code, and no line says why" | tee -a "$lines"
  elif ! grep -Eq '^(ok|not ok|skip) - ' "$lines"; then
    notok "$name" "printed no result" | tee -a "$lines"
  fi
  printf '# %s: %s s, %s passed, %s failed, %s skipped\n' "$name" \
    $(($(date +%s) - start)) "$(count ok "$lines")" \
    "$(count 'not ok' "$lines")" "$(count skip "$lines")"
  rm -rf "$WORK"
}

# The scripts that are wanted take the place of the arguments.
scripts=
for script in "$ROOT"/.github/checks/[0-9]*.sh; do
  ! wanted "$(basename "$script" .sh)" "$@" ||
    scripts="$scripts $(basename "$script" .sh)"
done
if [ -z "$scripts" ]; then
  echo "no check is called that; see check.sh -l" >&2
  exit 2
fi
# shellcheck disable=SC2086  # names without spaces
set -- $scripts
share=$(((JOBS + $# - 1) / $#)) # cores for each script
run_script() { run "$ROOT/.github/checks/$1.sh"; }
if [ $# = 1 ]; then
  run_script "$1" & # so that a signal need not wait for it
  wait $!
else
  run_parallel run_script "$@"
fi

all=$TMP/all
cat "$TMP"/*.lines >"$all"
failed=$(count 'not ok' "$all")
if [ "$failed" != 0 ]; then
  echo '# failed:'
  grep '^not ok - ' "$all" | sed 's/^not ok - /#   /'
fi
printf '%s passed, %s failed, %s skipped\n' \
  "$(count ok "$all")" "$failed" "$(count skip "$all")"
[ "$failed" = 0 ]
