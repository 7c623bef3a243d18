#!/bin/sh
# Makes the evidence: builds everything for this machine's GPU, runs, sanitizes
# and profiles it, and keeps every transcript whole.
# SPDX-License-Identifier: MIT
#
#   sh evidence/collect.sh FOLDER [PART...]     from the root of the repository
#
# PART is one of: registers lesson solutions errors sanitizers planted counters
# sizes faults pictures. All but pictures unless named. Needs nvcc and a GPU;
# counters needs ncu; pictures runs on the PGM and PPM files of the folder
# PICTURES. PROGRAMS names what to build, run and sanitize: "lesson" and the
# solutions, all of them unless set. Every file of FOLDER is the output of one
# command, both streams together; commands.txt says which, and with which exit
# code it ended.
set -u

out=${1:?usage: sh evidence/collect.sh FOLDER [PART...]}
shift
[ $# -gt 0 ] ||
  set -- registers lesson solutions errors sanitizers planted counters sizes \
    faults
bin=.build
mkdir -p "$out" "$bin"
out=$(cd "$out" && pwd)
card=sm_$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader |
  head -n 1 | tr -d .)
log=$out/commands.txt
: "${PROGRAMS:=lesson $(basename -s .cu solutions/*.cu | tr '\n' ' ')}"

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

# plant PROGRAM SED-SCRIPT: convolution.cu with a fault in it.
plant() {
  mkdir -p "$bin/planted-$1"
  sed "$2" convolution.cu >"$bin/planted-$1/convolution.cu"
  build "$1" "$bin/planted-$1/convolution.cu" "$card" -lineinfo
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
  [ "$name" != lesson ] || continue # that is built in any case
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
      for name in $PROGRAMS; do
        options=
        case $name in
          lesson) continue ;;
          two_pass) keep two_pass-sm_75.txt "$bin/two_pass-sm_75" ;;
          # A frame so large that a launch takes no part of its time worth naming.
          frames)
            keep "frames-4096x4096-$card.txt" "$bin/frames-$card" \
              --size 4096x4096 --frames 50
            options="--timeline $out/frames-timeline.txt"
            ;;
        esac
        # shellcheck disable=SC2086
        keep "$name-$card.txt" "$bin/$name-$card" $options
      done
      ;;
    errors)
      keep error-no-device.txt env CUDA_VISIBLE_DEVICES= "$bin/lesson-sm_75"
      build wrong-arch convolution.cu sm_120
      keep error-wrong-arch.txt "$bin/wrong-arch"
      plant failed-launch \
        's/^const dim3 kBlock(kTile, kTile);/const dim3 kBlock(kTile, 64);/'
      keep error-failed-launch.txt "$bin/failed-launch"
      ;;
    planted)
      # What each tool says of a fault of its own kind.
      kernel='/^__global__ void blurTiled/,/^}/'
      plant memcheck 's/x <= lastCol)/x <= lastCol + 2)/' &
      plant racecheck "${kernel}s/__syncthreads();//" &
      plant synccheck "${kernel}s/__syncthreads();/if (threadIdx.x < 16) &/" &
      wait
      for tool in memcheck racecheck synccheck; do
        keep "planted-$tool.txt" compute-sanitizer --tool "$tool" \
          --error-exitcode 99 --print-limit 3 "$bin/$tool" --cases small
      done
      ;;
    sanitizers)
      for name in $PROGRAMS; do
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
      for list in lesson two_pass rotate90 frames frames_libraries; do
        keep "faults-$list.txt" env GPU=1 "ARCH=$card" \
          "JOBS=$(getconf _NPROCESSORS_ONLN)" sh .github/faults.sh ".github/faults/$list.txt"
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
