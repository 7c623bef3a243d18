#!/bin/sh
# The notebook: its form, its commands, and runs of it without a GPU.
# SPDX-License-Identifier: MIT
#
# PYTHON names the Python to run it with, python3 unless set.
. "$(dirname "$0")/../lib.sh"
cd "$ROOT" || exit 1

python=${PYTHON:-python3}
notebook=exercises/colab.ipynb
tool=.github/notebook/notebook.py
if ! "$python" -c 'import ast' 2>/dev/null; then
  skip "notebook" "there is no $python"
  exit 0
fi
readmes=$(repo_files '^(exercises/)?README\.md$')
# shellcheck disable=SC2086
lint() { "$python" "$tool" lint "$1" $readmes; }
lint "$notebook" || notok "notebook" "it cannot be read"

# -------------------------------------------- that each of these can also fail

# sees NAME WORDS PERL
sees() {
  perl -pe "$3" "$notebook" >"$WORK/bad.ipynb"
  lint "$WORK/bad.ipynb" >"$WORK/said" 2>&1
  judge "notebook, planted: $1" 0 "not ok - && $2" $? "$WORK/said"
}
sees "no JSON" "is JSON" '$_ = "" if eof'
sees "another kernel" "kernel python2" 's/"name": "python3"/"name": "python2"/'
sees "an output" "stripped: cell 2" 's/"outputs": \[\]/"outputs": [{}]/ && !$n++ || s/x/x/'
sees "an execution count" "stripped" 's/("execution_count": )null/${1}4/'
sees "a slip in the Python" "code cell 1, line" 's/def find_code\(\):/def find_code()/'
sees "a plugin" "code cell 2, line" 's/cards = !nvidia-smi -L/%load_ext nvcc4jupyter/'
sees "a repository of somebody's" "REPO is left" 's/REPO = \\"\\"/REPO = \\"x\\"/'
sees "another -arch" "no README gives 'nvcc -std=c++17 -O3 -arch=native" 's/sm_75/native/'
sees "another stand-in" "'sh no-gpu/nvcc' compiles nothing" 's/sh exercises.no-gpu/sh no-gpu/'

# ------------------------------------------------------------------------- runs

if ! "$python" -c 'import nbclient, ipykernel, matplotlib, numpy' 2>/dev/null; then
  skip "notebook: runs" "$python has no nbclient, ipykernel, matplotlib or numpy"
  exit 0
fi
MPLCONFIGDIR=$WORK/matplotlib
IPYTHONDIR=$WORK/ipython
JUPYTER_RUNTIME_DIR=$WORK/jupyter
export MPLCONFIGDIR IPYTHONDIR JUPYTER_RUNTIME_DIR
unset MPLBACKEND

# copy FOLDER: the repository's files.
copy() {
  repo_files . | while read -r file; do
    mkdir -p "$1/$(dirname "$file")" && cp "$file" "$1/$file" || return
  done
}
# edit OLD NEW...: as WORK/run.ipynb
edit() {
  "$python" "$tool" edit "$notebook" "$WORK/run.ipynb" "$@" ||
    notok "notebook: the copy to run" "$1"
}
# runs PATH NAME EXIT WORDS FOLDER: with PATH before the machine's own.
runs() {
  expect -t 300 "notebook: $2" "$3" "$4" \
    env "PATH=$1:$PATH" "$python" "$tool" run "$WORK/run.ipynb" "$5"
}

# Without a GPU, in a checkout, with the gate done. Fewer cases than in the
# notebook: perf has its own checks.
mkdir "$WORK/none" "$WORK/fake" "$WORK/empty"
printf '#!/bin/sh\necho No devices were found\nexit 6\n' >"$WORK/none/nvidia-smi"
chmod +x "$WORK/none/nvidia-smi"
copy "$WORK/code"
# part N: what stands in the Nth TODO of the solution.
part() {
  awk -v n="$1" '/TODO\(you\)/ { i++; next } /end TODO/ { i += 0.5; next }
    i == n + 0.5 * (n - 1) { print }' solutions/two_pass.cu
}
edit './convolution 2' './convolution --cases odd,base 2' \
  'OPTIONS = ""' 'OPTIONS = "--cases odd,small"' \
  'predictions = r"""' "predictions = r\"\"\"
$(part 1)" 'blur_rows = r"""' "blur_rows = r\"\"\"
$(part 2)" 'blur_cols = r"""' "blur_cols = r\"\"\"
$(part 3)"
runs "$WORK/none" "runs without a GPU, the gate done" 0 \
  "NO GPU here && T4 GPU && gpu: CPU emulation && 2.43% of the edges are white. && [picture && convolution.txt has no times && This run had no GPU && explanation: By bytes && two_pass.txt has no times && none asked for && verdict && !NOT BUILT && !Error" \
  "$WORK/code/exercises"
if [ "$(grep -cx 'result: pass' "$OUT")" = 2 ] &&
  cmp -s solutions/two_pass.cu "$WORK/code/exercises/two_pass.cu"; then
  ok "notebook: it fills in the gate, and both programs pass"
else
  notok "notebook: it fills in the gate" "not the solution, or no pass" "$OUT"
fi

# From an empty folder, by git clone, as if there were a T4; nothing filled in.
# The nvcc here makes a program that prints a made-up transcript.
if have git; then
  awk -v kind=lesson -f .github/grade-cases/synthetic.awk \
    "$WORK/code/convolution.txt" >"$WORK/fake/transcript" 2>/dev/null
  cat >"$WORK/fake/nvidia-smi" <<'EOS'
#!/bin/sh
echo 'GPU 0: Tesla T4 (UUID: GPU-00000000)'
EOS
  cat >"$WORK/fake/nvcc" <<'EOS'
#!/bin/sh
case $* in *two_pass*) exec sh exercises/no-gpu/nvcc "$@" ;; esac
printf '#!/bin/sh\ncp "$WORK"/code/day20_*.pgm . && cat "$WORK/fake/transcript"\n' >convolution
chmod +x convolution
EOS
  chmod +x "$WORK/fake/nvidia-smi" "$WORK/fake/nvcc"
  copy "$WORK/origin"
  (cd "$WORK/origin" && git init -q . && git add -A &&
    git -c user.name=check -c user.email=check commit -qm check) >"$WORK/said" 2>&1 ||
    notok "notebook: a repository to clone" "git failed" "$WORK/said"
  edit 'REPO = ""' "REPO = \"file://$WORK/origin\""
  runs "$WORK/fake" "runs as if there were a T4, from a clone" 0 \
    "day20 && GPU 0: Tesla T4. && checked and timed && copy (the baseline) && result: pass && predict before you run && NOT BUILT YET && NOTHING TO GRADE YET && !no times && !NO GPU" \
    "$WORK/empty"
  if [ "$(grep -c '^\[picture [0-9]* x [0-9]*\]$' "$OUT")" = 2 ]; then
    ok "notebook: pictures and table are drawn"
  else
    notok "notebook: pictures and table are drawn" "not two pictures" "$OUT"
  fi
  rm -rf "$WORK/empty/day20"
else
  skip "notebook: runs from a clone" "git is not installed"
fi

edit
runs "$WORK/none" "with no code at hand it says what to do" 1 \
  "NO CODE YET. Set REPO && !Traceback && !result:" "$WORK/empty"
