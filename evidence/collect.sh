#!/bin/sh
# Makes the evidence: builds everything for this machine's GPU, runs, sanitizes
# and profiles it, and keeps every transcript whole.
# SPDX-License-Identifier: MIT
#
#   sh evidence/collect.sh FOLDER [PART...]     from the root of the repository
#
# PART is one of: lesson solutions errors sanitizers counters faults sizes.
# All of them unless named. Needs nvcc and a GPU; counters needs ncu. Every file
# of FOLDER is the output of one command, both streams together; commands.txt
# says which, and with which exit code it ended.
set -u

out=${1:?usage: sh evidence/collect.sh FOLDER [PART...]}
shift
[ $# -gt 0 ] ||
  set -- lesson solutions errors sanitizers counters faults sizes
mkdir -p "$out" .build
out=$(cd "$out" && pwd)
capability=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader | head -n 1)
card=sm_$(echo "$capability" | tr -d .)
log=$out/commands.txt

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
  nvcc -std=c++17 -O3 "-arch=$arch" "$@" -o ".build/$program" "$source"
}

build lesson-sm_75 convolution.cu sm_75 &
build "lesson-$card" convolution.cu "$card" -lineinfo &
for source in solutions/*.cu; do
  [ -e "$source" ] || continue
  name=$(basename "$source" .cu)
  build "$name-$card" "$source" "$card" -lineinfo &
  [ "$name" != two_pass ] || build "$name-sm_75" "$source" sm_75 &
done
wait

for part; do
  case $part in
    lesson)
      # Run where the sources are, so that the header can give their hashes.
      keep lesson-sm_75.txt .build/lesson-sm_75
      keep lesson-sm_75-again.txt .build/lesson-sm_75
      keep "lesson-$card.txt" ".build/lesson-$card"
      keep "lesson-$card-again.txt" ".build/lesson-$card"
      keep "lesson-$card-seed.txt" ".build/lesson-$card" --seed 20261130
      ;;
    solutions)
      for program in .build/*; do
        name=$(basename "$program")
        case $name in lesson-*) continue ;; esac
        keep "$name.txt" "$program"
      done
      ;;
    errors)
      keep error-no-device.txt env CUDA_VISIBLE_DEVICES= .build/lesson-sm_75
      build wrong-arch convolution.cu sm_120
      keep error-wrong-arch.txt .build/wrong-arch
      mkdir -p .build/broken
      sed 's/^const dim3 kBlock(kTile, kTile);/const dim3 kBlock(kTile, 64);/' \
        convolution.cu >.build/broken/convolution.cu
      build failed-launch .build/broken/convolution.cu "$card"
      keep error-failed-launch.txt .build/failed-launch
      ;;
    sanitizers)
      for tool in memcheck racecheck synccheck initcheck; do
        for program in .build/*-"$card"; do
          name=$(basename "$program" "-$card")
          keep "sanitizer-$tool-$name.txt" \
            compute-sanitizer --tool "$tool" --error-exitcode 99 \
            "$program" --no-timing --cases impulse,small,skew,flat
        done
      done
      ;;
    counters)
      sh evidence/counters.sh ".build/lesson-$card" "$out"
      ;;
    faults)
      for list in .github/faults/*.txt; do
        GPU=1 ARCH=$card JOBS=16 keep "faults-$(basename "$list")" \
          sh .github/faults.sh "$list"
      done
      ;;
    sizes)
      build sizes evidence/sizes.cu "$card"
      keep "sizes-$card.txt" .build/sizes
      ;;
    *)
      echo "collect.sh: no part \"$part\"" >&2
      exit 2
      ;;
  esac
done
