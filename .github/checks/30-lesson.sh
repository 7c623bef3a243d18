#!/bin/sh
# The lesson: every case without a GPU, and on one where there is one; faults
# SPDX-License-Identifier: MIT
. "$(dirname "$0")/../lib.sh"

cd "$ROOT" || exit 1
stand_in=exercises/no-gpu/nvcc

# build NAME OPTION...: convolution.cu as WORK/NAME/convolution.
build() {
  mkdir -p "$WORK/$1"
  name=$1
  shift
  expect -t 300 "$name builds" 0 "" \
    sh "$stand_in" -std=c++17 -arch=sm_75 "$@" \
    -o "$WORK/$name/convolution" convolution.cu
}

# in_folder FOLDER COMMAND...: runs it there, since pictures land where it runs.
in_folder() { (cd "$1" && shift && exec "$@"); }

build fast -O3 || exit 0
expect -t 200 "all cases, perf included" 0 \
  "case odd: 613 rows x 611 cols, grid (20, 20), 374543 pixels && case perf: 4096 rows x 4096 cols, grid (128, 128), 16777216 pixels && 2.43% of the edges are white && gpu: CPU emulation, no GPU timings && timing: none && result: pass" \
  sh -c 'cd "$WORK/fast" && exec ./convolution'
tail -n 1 "$OUT" | grep -qx 'result: pass' &&
  ok "the last line is the result" ||
  notok "the last line is the result" "it is not" "$OUT"
for picture in input blur edges; do
  if [ "$(head -c 16 "$WORK/fast/day20_$picture.pgm" | tr '\n' ' ')" = \
    "P5 1024 1024 255" ] ||
    [ "$(wc -c <"$WORK/fast/day20_$picture.pgm")" -eq 1048593 ]; then
    ok "day20_$picture.pgm is a whole 1024 x 1024 PGM"
  else
    notok "day20_$picture.pgm" "not a 1024 x 1024 PGM"
  fi
done

expect "a source's hash is of the file itself" 0 \
  "source: convolution.cu fnv1a64 $(perl -0777 -ne '
    use integer;
    s/\r//g;
    my $hash = -3750763034362895579;  # 14695981039346656037 in 64 bits, signed
    $hash = ($hash ^ ord $1) * 1099511628211 while /(.)/gs;
    printf "%016x", $hash' convolution.cu)" \
  "$WORK/fast/convolution" --cases impulse --no-timing

for order in reverse shuffle:20; do
  expect -t 100 "threads in order $order" 0 "result: pass" \
    env "NOGPU_ORDER=$order" "$WORK/fast/convolution" --cases \
    odd,impulse,small,skew,flat
done

# A seed changes the images, and with them what the references say.
references() {
  "$WORK/fast/convolution" --cases odd,small "$@" |
    sed -n 's/^case \([a-z]*\).*reference \([0-9a-f]*\).*/\1 \2/p'
}
plain=$(references) seven=$(references --seed 7) again=$(references --seed 7)
if [ -n "$seven" ] && [ "$seven" = "$again" ] && [ "$seven" != "$plain" ]; then
  ok "a seed gives other images, the same ones each time"
else
  notok "a seed gives other images" "none $plain, seven $seven, again $again"
fi
expect "a run with a seed passes" 0 "seed: 12345 && result: pass" \
  sh -c 'cd "$WORK/fast" && exec ./convolution --seed 12345 --cases odd,base'

# The command line.
run=$WORK/fast/convolution
expect "--help" 0 "usage: && --cases && --threshold" "$run" --help
expect "--version" 0 "day20 image convolution 1.0.0" "$run" --version
expect "an unknown option" 2 "unknown option --fast && usage:" "$run" --fast
expect "an unknown case" 2 'there is no case "large" && usage:' \
  "$run" --cases odd,large
expect "an option without its value" 2 "--seed needs a value" "$run" --seed
expect "a seed that is none" 2 "not a whole number" "$run" --seed -1
expect "a threshold that is none" 2 "not a number" "$run" --threshold x a.pgm
expect "options that do not go together" 2 "do not go with an IMAGE" \
  "$run" --seed 3 a.pgm
expect "two images" 2 "more than one IMAGE" "$run" a.pgm b.pgm
expect "a picture that is not there" 2 "none.pgm: cannot be opened" \
  "$run" none.pgm
expect "a folder that cannot be written to" 2 "day20_input.pgm: cannot be written" \
  sh -c 'mkdir -p "$WORK/away/day20_input.pgm" && cd "$WORK/away" &&
    exec "$WORK/fast/convolution" --cases base'

# The sanitizers, over the cases that are not large.
if echo 'int main() {}' | "$CXX" -fsanitize=address,undefined -x c++ - \
  -o "$WORK/sanitized" 2>/dev/null && "$WORK/sanitized"; then
  build checked -O1 -g -fsanitize=address,undefined &&
    expect -t 300 "address and undefined sanitizers find nothing" 0 \
      "result: pass" "$WORK/checked/convolution" --cases impulse,small,skew,flat
else
  skip "address and undefined sanitizers" "$CXX has none here"
fi

# A GPU, where there is one.
if have nvcc && have nvidia-smi && nvidia-smi >/dev/null 2>&1; then
  mkdir "$WORK/gpu"
  expect -t 300 "nvcc builds for this GPU's lesson" 0 "" \
    nvcc -std=c++17 -O3 -arch=sm_75 -o "$WORK/gpu/convolution" convolution.cu
  expect -t 200 "all cases and the table on the GPU" 0 "result: pass" \
    sh -c 'cd "$WORK/gpu" && exec ./convolution'
  expect "no visible device" 3 "no usable GPU here && Colab && !result:" \
    env CUDA_VISIBLE_DEVICES= "$WORK/gpu/convolution"
else
  skip "the lesson on a GPU" "no nvcc with a GPU here"
  if have nvcc; then
    mkdir "$WORK/none"
    expect -t 300 "nvcc builds without a GPU" 0 "" \
      nvcc -std=c++17 -O3 -arch=sm_75 -o "$WORK/none/convolution" convolution.cu
    expect "a build for a GPU on a machine without one" 3 \
      "no usable GPU here && Runtime, Change runtime type, T4 && no-gpu/nvcc && !result:" \
      "$WORK/none/convolution"
  else
    skip "a build for a GPU on a machine without one" "no nvcc here"
  fi
fi

GPU='' sh .github/faults.sh .github/faults/lesson.txt
