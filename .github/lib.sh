# shellcheck shell=sh
# What every check script shares. Plain POSIX sh; Perl does what sh cannot.
# SPDX-License-Identifier: MIT
#
# A check script starts with  . "$(dirname "$0")/../lib.sh"  and then prints
# one line a result, through the functions below:
#   ok - NAME          not ok - NAME: WHY          skip - NAME: WHY
# Lines that start with # are remarks. Everything else is shown, not counted.
#
# It may use, whether check.sh started it or a person did:
#   ROOT  the repository            WORK  an empty folder, removed at the end
#   CXX   the C++ compiler          JOBS  how many jobs to run at once
# It leaves no other file behind, and sets no trap on EXIT.

set -u
LC_ALL=C
export LC_ALL
unset CDPATH GREP_OPTIONS NOGPU_ORDER NOGPU_TIMING NOGPU_THREADS
umask 022

# How this repository's own files are built: no warning may come.
# shellcheck disable=SC2034
WARNINGS='-Xcompiler -Wall,-Wextra -Werror all-warnings'

ok() { printf 'ok - %s\n' "$1"; }

# skip NAME WHY
skip() { printf 'skip - %s: %s\n' "$1" "$2"; }

# notok NAME WHY [FILE]: FILE holds details, of which both ends are shown.
notok() {
  printf 'not ok - %s: %s\n' "$1" "$2"
  [ $# -lt 3 ] || remark "$3"
}

# remark FILE: its text behind #, so that none of it counts as a result.
remark() {
  awk '{ line[NR] = $0 }
    END {
      for (i = 1; i <= NR; ++i)
        if (NR <= 50 || i <= 20 || i > NR - 25) print "#   " line[i]
        else if (i == 21) print "#   ... " NR - 45 " lines more ..."
    }' "$1"
}

# have COMMAND: is it installed?
have() { command -v "$1" >/dev/null 2>&1; }

# within SECONDS COMMAND [ARG]...: the command's exit code, or 124 when it had
# to be stopped. It runs in a process group of its own, which ends with it, and
# ends too when the shell that waits for it is gone, or the script's own.
within() {
  perl -e '
    my $script = shift;
    my $limit = shift;
    my ($end, $parent, $code, $hits) = (time + $limit, getppid, 0, 0);
    my $pid = fork;
    die "no new process: $!\n" unless defined $pid;
    if (!$pid) {
      setpgrp 0, 0;
      open STDIN, "<", "/dev/null" if -t STDIN;
      exec { $ARGV[0] } @ARGV;
      warn "cannot run $ARGV[0]: $!\n";
      exit 127;
    }
    setpgrp $pid, $pid;
    my $stop = sub {
      $code = $_[0] unless $code;
      kill $hits++ ? "KILL" : "TERM", -$pid;
    };
    $SIG{INT} = $SIG{TERM} = $SIG{HUP} = sub { $stop->(143) };
    $SIG{ALRM} = sub {
      $stop->(124) if time >= $end;
      $stop->(143) if getppid != $parent || !kill 0, $script;
      alarm 1;
    };
    alarm 1;
    waitpid $pid, 0;
    my $status = $?;
    alarm 0;
    select undef, undef, undef, 0.3 if $code;  # let nested ones end theirs
    kill "KILL", -$pid;
    exit($code || ($status & 127 ? 128 + ($status & 127) : $status >> 8));
  ' $$ "$@"
}

# lacks FILE WORDS: prints what is amiss, nothing when all is well. WORDS are
# fixed strings joined by " && "; one that starts with ! must not occur.
lacks() {
  lacks_rest=$2
  while [ -n "$lacks_rest" ]; do
    case $lacks_rest in
      *' && '*)
        lacks_word=${lacks_rest%%' && '*}
        lacks_rest=${lacks_rest#*' && '}
        ;;
      *)
        lacks_word=$lacks_rest
        lacks_rest=
        ;;
    esac
    case $lacks_word in
      !?*)
        ! grep -qF -e "${lacks_word#!}" "$1" || printf ' it says "%s".' "${lacks_word#!}"
        ;;
      *) grep -qF -e "$lacks_word" "$1" || printf ' no "%s".' "$lacks_word" ;;
    esac
  done
}

# judge NAME WANT WORDS GOT FILE: one result line for a command that ended with
# exit code GOT and said FILE. WANT is a number, or "fail" for any from 1 to 125.
judge() {
  judge_why=
  case $2,$4 in
    "$4,$2") ;;
    *,124) judge_why=' stopped, it took too long.' ;;
    fail,0) judge_why=' exit 0, want a failure.' ;;
    fail,12[67]) judge_why=" exit $4, the command could not run." ;;
    fail,*) [ "$4" -lt 126 ] || judge_why=" ended by signal $(($4 - 128))." ;;
    *,12[89] | *,1[3-9]?) judge_why=" ended by signal $(($4 - 128)), want exit $2." ;;
    *) judge_why=" exit $4, want $2." ;;
  esac
  judge_why=$judge_why$(lacks "$5" "$3")
  if [ -z "$judge_why" ]; then
    ok "$1"
  else
    notok "$1" "${judge_why# }" "$5"
    return 1
  fi
}

# expect [-t SECONDS] NAME EXIT WORDS COMMAND [ARG]...: runs the command (60
# seconds unless told) and judges it. OUT is then the file with what it printed,
# both streams together. Input comes from expect's own.
expect() {
  expect_limit=60
  if [ "$1" = -t ]; then
    expect_limit=$2
    shift 2
  fi
  expect_name=$1
  expect_code=$2
  expect_words=$3
  shift 3
  OUT=$(mktemp "$WORK/out.XXXXXX")
  within "$expect_limit" "$@" >"$OUT" 2>&1
  judge "$expect_name" "$expect_code" "$expect_words" $? "$OUT"
}

# run_parallel FUNCTION ITEM...: calls FUNCTION ITEM for each, at most JOBS at a
# time, and prints what each printed in the order of the items. In the function
# JOB is an empty folder of its own. One that fails must have said "not ok".
run_parallel() {
  pool=$(mktemp -d "$WORK/pool.XXXXXX")
  pool_function=$1
  shift
  trap 'trap "" TERM; kill 0; exit 130' INT
  pool_worker=0
  while [ "$pool_worker" -lt "$JOBS" ] && [ "$pool_worker" -lt $# ]; do
    pool_worker=$((pool_worker + 1))
    (
      n=0
      for item; do
        n=$((n + 1))
        mkdir "$pool/$n" 2>/dev/null || continue  # another worker has it
        kill -0 $$ 2>/dev/null || exit 1          # the script is gone
        export JOB="$pool/$n"
        ("$pool_function" "$item") >"$pool/$n.lines" 2>&1 </dev/null || {
          code=$?
          grep -q '^not ok - ' "$pool/$n.lines" ||
            notok "$pool_function $item" "exit $code" >>"$pool/$n.lines"
        }
        : >"$pool/$n.done"
      done
    ) &
  done
  n=0
  for item; do
    n=$((n + 1))
    while [ ! -e "$pool/$n.done" ]; do sleep 0.1; done
    cat "$pool/$n.lines"
  done
  wait
  trap - INT
  rm -rf "$pool"
}

# repo_files PATTERN: the files of the repository, less what git ignores, whose
# path matches this grep -E pattern. Run in ROOT.
repo_files() {
  if in_git rev-parse --git-dir >/dev/null 2>&1; then
    in_git ls-files -co --exclude-standard
  else
    find . -name .git -prune -o -type f -print | sed 's/^\.\///'
  fi | sort -u | grep -E -e "$1" | while read -r repo_file; do
    [ ! -f "$repo_file" ] || printf '%s\n' "$repo_file"
  done
}
in_git() { have git && git -c safe.directory='*' "$@"; }

# need_tools: Perl and a working C++17 compiler, in CXX; or says what to install.
need_tools() {
  have perl || {
    echo "The check needs Perl. Debian, Colab: apt-get install perl. macOS has it." >&2
    return 1
  }
  need_told=${CXX:-}
  for CXX in ${need_told:-c++ g++ clang++}; do
    echo 'int main() { if constexpr (true) return 0; }' |
      "$CXX" -std=c++17 -x c++ -fsyntax-only - >/dev/null 2>&1 && return 0
  done
  echo "The check needs a C++17 compiler${need_told:+; CXX=$need_told is none}." \
    "Debian, Colab: apt-get install g++. macOS: xcode-select --install." >&2
  return 1
}

# check.sh has done this already for the scripts that it starts.
if [ -z "${CHECK_RUN:-}" ]; then
  ROOT=$(cd "$(dirname "$0")" && pwd -P)
  while [ ! -f "$ROOT/.github/lib.sh" ] && [ "$ROOT" != / ]; do
    ROOT=$(dirname "$ROOT")
  done
  need_tools || exit 1
  : "${JOBS:=$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2)}"
  WORK=$(mktemp -d) || exit 1
  work_folder=$WORK
  trap 'rm -rf "$work_folder"' EXIT
  trap 'exit 143' TERM HUP
  export ROOT WORK CXX JOBS
fi
