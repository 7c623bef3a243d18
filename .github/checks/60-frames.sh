#!/bin/sh
# The frames exercises: stages, streams, folders of files, libraries, faults
# SPDX-License-Identifier: MIT
. "$(dirname "$0")/../lib.sh"

cd "$ROOT" || exit 1
stand_in=exercises/no-gpu/nvcc

# build NAME FILE: as WORK/NAME.
build() {
  # shellcheck disable=SC2086
  expect -t 300 "$2 builds" 0 "!warning" \
    sh "$stand_in" -std=c++17 -O1 -arch=sm_75 $WARNINGS -o "$WORK/$1" "$2"
}
build frames solutions/frames.cu || exit 0
build skeleton exercises/frames.cu
run=$WORK/frames
cd "$WORK" || exit 1

expect -t 100 "every stage, and frames through 1, 2, 3 and 5 buffers" 0 \
  "case odd: 1 size, 188191 pixels, 9 of 9 stages pass && case full: 1 size, 15360 pixels, 9 of 9 stages pass && buffers 1: 200 frames && buffers 2: 200 frames && buffers 3: 200 frames && buffers 5: 200 frames && a frame waits for its own stream alone && timing: none, this device has no clock && result: pass && !FAIL && !note" \
  "$run" --size 48x320 --frames 200 --buffers 5
# In reverse order they run below, beside the faults.
expect "threads in any order" 0 "9 of 9 stages pass && result: pass && !FAIL" \
  env NOGPU_ORDER=shuffle:5 "$run" --size 60x84 --frames 40 --seed 7
expect "the report card and the timeline" 0 \
  "a launch, for one pixel && frame, fused + histogram && code, by hand: && edges, fused: && of the speed of copy, cudaMemcpyAsync && frames/s, by hand: serial && overlap, by hand: && result: pass" \
  env NOGPU_TIMING=1 "$run" --size 12x16 --frames 10 --timeline timeline.txt
expect "the timeline holds its three lanes" 0 \
  "copy in  | && kernels  | && copy out | && in, ms && 199" cat timeline.txt
expect "the untouched skeleton fails" 1 \
  "FAIL blur rows, case odd && 188191 of 188191 pixels never written && FAIL blur cols && 6 of 9 stages pass && FAIL streams: 0 of 20 frames came back && result: fail && !FAIL edges, fused && !FAIL frame, six kernels" \
  "$WORK/skeleton" --size 48x64 --frames 20

# ------------------------------------------------------------- the command line

expect "--help" 0 "usage: && --buffers N && --in DIR" "$run" --help
expect "--version" 0 "day20 frames 1.0.0" "$run" --version
expect "an unknown option" 2 "unknown option --fast && usage:" "$run" --fast
expect "an option without its value" 2 "--frames needs a value" "$run" --frames
expect "a size that is none" 2 "not ROWSxCOLS, each of 1 to 32768" "$run" --size 1080
expect "a size of nothing" 2 "not ROWSxCOLS" "$run" --size 0x5
expect "too many buffers" 2 "not a whole number of 1 to 16" "$run" --buffers 17
expect "a seed that is none" 2 "not a whole number" "$run" --seed -1
expect "--in without --out" 2 "--in and --out go together" "$run" --in a
expect "options that do not go together" 2 "--seed does not go with --in" \
  "$run" --in a --out b --seed 3
expect "a timeline without timing" 2 "--timeline needs the timing" \
  "$run" --timeline a --no-timing

# ------------------------------------------------------------ a folder of files

# picture FILE HEADER COUNT: COUNT bytes that are not all alike.
picture() {
  perl -e '
    my ($header, $count) = @ARGV;
    $header =~ s/\\n/\n/g;
    binmode STDOUT;
    print $header, pack "C*", map { $_ * 37 % 251 } 1 .. $count' "$2" "$3" >"$1"
}
mkdir in
picture in/a.ppm 'P6\n9 7\n255\n' 189
picture in/b.PPM 'P6\n64 48\n255\n' 9216
picture in/c.pgm 'P5\n5 3\n100\n' 0
perl -e 'print "\x07" x 15' >>in/c.pgm
printf 'P3\n2 2\n255\n255 0 0  0 255 0\n0 0 255  255 255 255\n' >in/d.ppm
picture in/e.ppm 'P6\n1 1\n65535\n' 6
echo 'no picture' >in/readme.txt
expect "a folder of good files" 0 \
  "in: 5 of 5 files, edges in out, equal to the CPU reference && 0 skipped && result: pass" \
  "$run" --in in --out out
if [ "$(ls out | tr '\n' ' ')" = \
  "a_edges.pgm b_edges.pgm c_edges.pgm d_edges.pgm e_edges.pgm " ]; then
  ok "each has its edges, and nothing else is there"
else
  notok "each has its edges, and nothing else is there" "$(ls out | tr '\n' ' ')"
fi
printf 'P5\n2 2\n255\n\323\334\377\377' >want.pgm
if cmp -s out/d_edges.pgm want.pgm; then
  ok "red green / blue white becomes 211 220 / 255 255"
else
  notok "red green / blue white becomes 211 220 / 255 255" "it does not"
fi

printf 'P6\n9 7\n255\nshort' >in/bad.ppm
printf 'P5\n2 2\n255\n1234' >in/a.pnm
expect "bad files are reported and skipped" 1 \
  "in/bad.ppm: the raster needs 189 bytes, the file has 5: skipped && a_edges.pgm: skipped && 5 of 7 files && 2 skipped && result: fail" \
  "$run" --in in --out again --buffers 3
rm in/bad.ppm in/a.pnm
for name in b_edges.pgm d_edges.pgm; do
  if cmp -s "out/$name" "again/$name"; then
    ok "the others are written: $name"
  else
    notok "the others are written: $name" "it differs"
  fi
done
if [ ! -e again/bad_edges.pgm ] && [ "$(find again -type f | wc -l)" -eq 5 ]; then
  ok "nothing is half-written"
else
  notok "nothing is half-written" "$(ls again | tr '\n' ' ')"
fi
mkdir -p full/d_edges.pgm
expect "an output that cannot be written" 1 \
  "full/d_edges.pgm: && skipped && 4 of 5 files && result: fail" \
  "$run" --in in --out full
expect "a folder that is not there" 2 "nowhere: " "$run" --in nowhere --out out
mkdir empty
expect "a folder without pictures" 2 "no .ppm, .pgm or .pnm file in it" \
  "$run" --in empty --out out
expect "the same folder twice" 2 "must be another folder" "$run" --in in --out in

# ----------------------------------------------- sanitizers, libraries, faults

if echo 'int main() {}' | "$CXX" -fsanitize=address,undefined -x c++ - \
  -o "$WORK/sanitized" 2>/dev/null && "$WORK/sanitized"; then
  (cd "$ROOT" && sh "$stand_in" -std=c++17 -O1 -arch=sm_75 \
    -fsanitize=address,undefined -o "$WORK/checked" solutions/frames.cu) \
    >"$WORK/log" 2>&1
  judge "solutions/frames.cu builds, with sanitizers" 0 "" $? "$WORK/log" &&
    expect -t 200 "address and undefined sanitizers find nothing" 0 \
      "result: pass && !runtime error" "$WORK/checked" --size 24x244 --frames 10
else
  skip "address and undefined sanitizers" "$CXX has none here"
fi

cd "$ROOT" || exit 1
printf '#include <thrust/version.h>\n#if THRUST_VERSION < 300000\n#error old\n#endif\n' \
  >"$WORK/cccl.cu"
if sh "$stand_in" -c -o "$WORK/cccl.o" "$WORK/cccl.cu" >"$WORK/log" 2>&1; then
  # By hand, Thrust, and views: one program holds all three.
  GPU='' sh .github/faults.sh .github/faults/frames_libraries.txt
elif grep -q 'not supported without a GPU\|#error old' "$WORK/log"; then
  skip "frames_thrust and frames_cccl without a GPU" \
    "no CCCL headers of CUDA 13 are here for the stand-in"
else
  notok "CCCL's headers are found, or not" "the stand-in fails" "$WORK/log"
fi
GPU='' sh .github/faults.sh .github/faults/frames.txt
