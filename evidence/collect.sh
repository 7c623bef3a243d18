#!/bin/sh
# Makes the evidence: builds everything for this machine's GPU, runs, sanitizes
# and profiles it, and keeps every transcript whole.
# SPDX-License-Identifier: MIT
#
#   sh evidence/collect.sh FOLDER [PART...]     from the root of the repository
#
# PART is one of: registers lesson solutions errors sanitizers counters sizes
# faults pictures. All of them unless named. Needs nvcc and a GPU; counters needs
# ncu; pictures runs on the PGM and PPM files of the folder PICTURES. PROGRAMS
# names the solutions, all of them unless set. Every file of FOLDER is the output
# of one command, both streams together; commands.txt says which, and with which
# exit code it ended.
set -u

out=${1:?usage: sh evidence/collect.sh FOLDER [PART...]}
shift
[ $# -gt 0 ] ||
  set -- registers lesson solutions errors sanitizers counters sizes faults
bin=.build
mkdir -p "$out" "$bin"
out=$(cd "$out" && pwd)
card=sm_$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader |
  head -n 1 | tr -d .)
log=$out/commands.txt
: "${PROGRAMS:=$(basename -s .cu solutions/*.cu | tr '\n' ' ')}"

# keep FILE COMMAND...: runs the command, and keeps what it prints.
keep() {
  file=$1
  shift
  "$@" >"$out/$file" 2>&1 </dev/null
  code=$?
  echo "$file: $* (exit $code)" | tee -a "$log"
}

# build PROGRAM SOURCE ARCH [OPTION...]
build() {
  program=$1 source=$2 arch=$3
  shift 3
  nvcc -std=c++17 -O3 "-arch=$arch" "$@" -o "$bin/$program" "$source"
}

# small NAME: the options of a run that a sanitizer finishes.
small() {
  case $1 in
    rotate90) echo --no-timing --cases numbers,lines,tiles ;;
    frames*) echo --no-timing --size 96x128 --frames 12 ;;
    *) echo --no-timing --cases impulse,small,skew,flat ;;
  esac
}

build lesson-sm_75 convolution.cu sm_75 &
build "lesson-$card" convolution.cu "$card" -lineinfo &
build sizes evidence/sizes.cu "$card" &
for name in $PROGRAMS; do
  build "$name-$card" "solutions/$name.cu" "$card" -lineinfo &
  [ "$name" != two_pass ] || build "$name-sm_75" "solutions/$name.cu" sm_75 &
done
wait

for part; do
  case $part in
    registers)
      for arch in sm_75 sm_80 sm_90; do
        keep "registers-$arch.txt" sh -c "nvcc -std=c++17 -O3 -arch=$arch \
          -Xptxas -v -cubin -o $bin/$arch convolution.cu 2>&1 | c++filt" &
      done
      wait
      ;;
    lesson)
      # Run where the sources are, so that the header can give their hashes.
      keep lesson-sm_75.txt "$bin/lesson-sm_75"
      keep lesson-sm_75-again.txt "$bin/lesson-sm_75"
      keep "lesson-$card.txt" "$bin/lesson-$card"
      keep "lesson-$card-again.txt" "$bin/lesson-$card"
      keep "lesson-$card-seed.txt" "$bin/lesson-$card" --seed 20261130
      ;;
    solutions)
      keep two_pass-sm_75.txt "$bin/two_pass-sm_75"
      for name in $PROGRAMS; do
        timeline=
        [ "$name" != frames ] || timeline="--timeline $out/frames-timeline.txt"
        # shellcheck disable=SC2086
        keep "$name-$card.txt" "$bin/$name-$card" $timeline
      done
      ;;
    errors)
      keep error-no-device.txt env CUDA_VISIBLE_DEVICES= "$bin/lesson-sm_75"
      build wrong-arch convolution.cu sm_120
      keep error-wrong-arch.txt "$bin/wrong-arch"
      mkdir -p "$bin/broken"
      sed 's/^const dim3 kBlock(kTile, kTile);/const dim3 kBlock(kTile, 64);/' \
        convolution.cu >"$bin/broken/convolution.cu"
      build failed-launch "$bin/broken/convolution.cu" "$card"
      keep error-failed-launch.txt "$bin/failed-launch"
      ;;
    sanitizers)
      for name in lesson $PROGRAMS; do
        for tool in memcheck racecheck synccheck initcheck; do
          # shellcheck disable=SC2046
          keep "sanitizer-$tool-$name.txt" compute-sanitizer --tool "$tool" \
            --error-exitcode 99 "$bin/$name-$card" $(small "$name") &
        done
        wait
      done
      ;;
    counters) sh evidence/counters.sh "$bin/lesson-$card" "$out" ;;
    sizes) keep "sizes-$card.txt" "$bin/sizes" ;;
    faults)
      # The frame programs' faults in time need a machine to themselves.
      for list in .github/faults/lesson.txt .github/faults/two_pass.txt \
        .github/faults/rotate90.txt; do
        keep "faults-$(basename "$list")" env GPU=1 "ARCH=$card" \
          "JOBS=$(getconf _NPROCESSORS_ONLN)" sh .github/faults.sh "$list"
      done
      ;;
    pictures)
      for picture in "${PICTURES:?}"/*.p[gp]m; do
        keep "picture-$(basename "$picture").txt" \
          "$bin/lesson-$card" -o "$bin/edges.pgm" "$picture"
      done
      ;;
    *)
      echo "collect.sh: no part \"$part\"" >&2
      exit 2
      ;;
  esac
done
