#!/bin/sh
# The way without a GPU: what the emulation supports, finds, refuses and says
# SPDX-License-Identifier: MIT
. "$(dirname "$0")/../lib.sh"
# What it leaves in the folder for temporary files must be its own.
TMPDIR=$WORK/temporary
mkdir "$TMPDIR"
export TMPDIR

tests=$ROOT/.github/no-gpu-tests
stand_in=$ROOT/exercises/no-gpu/nvcc
cd "$tests" || exit 1

# builds NAME COMPILER OUTPUT FILE OPTION...: a result line; no warning may come.
builds() {
  name=$1 compiler=$2 output=$3 file=$4
  shift 4
  expect -t 120 "$name" 0 '!warning' env CXX="$compiler" sh "$stand_in" \
    -std=c++17 -arch=sm_75 --extended-lambda -Xcompiler -Wall,-Wextra -Werror all-warnings "$@" \
    -o "$output" "$file"
}

# here MARK [FILE]: the line that is marked so in mistakes.cu.
here() { grep -n "// here: $1" "${2:-mistakes.cu}" | sed 's/:.*//;q'; }

# sanitizers COMPILER: can it link with them?
sanitizers() {
  echo 'int main() {}' >"$JOB/probe.cpp"
  "$1" -fsanitize=address,undefined -o "$JOB/probe" "$JOB/probe.cpp" 2>/dev/null
}

# supported COMPILER FILE: everything in it, in every order, and sanitized.
supported() {
  what="${2%.cu}, $1"
  builds "$what: builds without a warning" "$1" "$JOB/plain" "$2" -O1 || return 0
  words='all as expected && !nobody has written'
  [ "$2" != features.cu ] ||
    words="$words && device: CPU emulation, no GPU timings, sm_75, L2 0, bus 0 bits && nvcc 0.0, __CUDA_ARCH_LIST__ 750 && features.cu:$(here lines features.cu) and kernels.cuh:$(here lines kernels.cuh)"
  for order in forward reverse shuffle:1 shuffle:2; do
    expect "$what: $order order" 0 "$words" \
      env "NOGPU_ORDER=$order" "$JOB/plain" check
  done
  expect "$what: one worker" 0 "$words" env NOGPU_THREADS=1 "$JOB/plain" check
  if sanitizers "$1"; then
    builds "$what: builds with sanitizers" "$1" "$JOB/checked" "$2" -O1 -g \
      -fsanitize=address,undefined || return 0
    expect "$what: sanitizers find nothing" 0 "$words" "$JOB/checked" check
    expect "$what: nor in reverse order" 0 "$words" \
      env NOGPU_ORDER=reverse "$JOB/checked" check
  else
    skip "$what: sanitizers" "$1 comes without their libraries"
  fi
}

# says MISTAKE EXIT WORDS: mistakes.cu finds it, in each order.
says() {
  for order in forward reverse shuffle:3; do
    expect "mistake $1, $order" "$2" "$3" \
      env "NOGPU_ORDER=$order" NOGPU_THREADS=1 "$JOB/mistakes" "$1"
  done
}
mistakes() {
  builds "mistakes.cu builds" "$CXX" "$JOB/mistakes" mistakes.cu -O2 || return 0
  fails='cudaErrorLaunchFailure, and it stays'
  says returns 3 "no-gpu: kernel returnsEarly, block (2, 0): 832 of 1024 threads returned before the barrier at mistakes.cu:$(here returns) where 192 wait && $fails"
  says loop 3 "no-gpu: kernel barrierInLoop, block (0, 0): threads at different barriers: 272 of 1024 at mistakes.cu:$(here loop), 752 at mistakes.cu:$(here after) && $fails"
  says branch 3 "no-gpu: kernel barrierInBranch, block (0, 0): threads at different barriers: 10 of 100 at mistakes.cu:$(here branch), 80 at mistakes.cu:$(here other), 10 returned && $fails"
  says present 0 ''
  says missing 1 '128 of 256 values are wrong'
  never() { echo "memory that nobody has written, at mistakes.cu:$(here "$1"), $2 in this launch"; }
  says shared-unset 1 "64 of 64 values are wrong && no-gpu: kernel readsUnset, block (0, 0), thread ( && : reads shared $(never shared-unset '65 times')"
  says device-unset 1 "64 of 64 values are wrong && no-gpu: kernel copies, block (0, 0), thread ( && : reads device $(never device-unset '64 times')"
  says half-unset 1 "34 of 64 values are wrong && no-gpu: kernel copies, block (1, 0), thread (1 && $(never device-unset '34 times')"
  says counter-unset 1 "66 of 66 values are wrong && kernel countsUnset, block (0, 0) && : reads shared $(never counter-unset '3 times') && $(never sum-unset '66 times')"
  says vector-unset 1 "1 of 32 values are wrong && kernel vectorLoad, block (0, 0), thread (7, 0): reads device $(never misaligned '1 time')"
  says misaligned 3 "no-gpu: kernel vectorLoad, block (0, 0), thread ( && : misaligned address, 16 bytes at no multiple of 16, at mistakes.cu:$(here misaligned) && cudaErrorMisalignedAddress, and it stays"
  for workers in 2 5; do
    expect "mistake half-unset, $workers workers" 1 "kernel copies, block (1, 0), thread (14, 0): reads device $(never device-unset '34 times')" \
      env NOGPU_THREADS=$workers "$JOB/mistakes" half-unset
  done
  says in-place 3 "no-gpu: kernel copies at mistakes.cu:$(here in-place): in and out are the same buffer, arguments 1 and 2 && $fails"
  says host 3 "no-gpu: kernel copies at mistakes.cu:$(here host): argument 1 points to host or freed memory && cudaErrorIllegalAddress, and it stays"
  says freed 3 "no-gpu: kernel copies at mistakes.cu:$(here freed): argument 1 points to host or freed memory"
  says lane-returns 3 "no-gpu: kernel laneReturns, block (0, 0), warp 1: 31 of 32 lanes in mask 0xffffffff wait in __shfl_down_sync at mistakes.cu:$(here lane-returns), but lane 5 has returned && $fails"
  says lane-elsewhere 3 "warp 0: 8 of 32 lanes in mask 0xffffffff wait in __shfl_sync at mistakes.cu:$(here lane-elsewhere), but lane 8 waits in __shfl_sync at mistakes.cu:$(here those) && $fails"
  says lane-barrier 3 "warp 0: 31 of 32 lanes in mask 0xffffffff wait in __any_sync at mistakes.cu:$(here lane-barrier), but lane 31 waits at a barrier"
  says not-in-mask 3 "kernel notInMask, block (0, 0), thread && not in mask 0xffff of its __shfl_sync at mistakes.cu:$(here not-in-mask)"
  says outside-mask 3 "reads lane 20, not in mask 0xffff, in __shfl_sync at mistakes.cu:$(here outside-mask)"
  says short-warp 3 "20 of 32 lanes in mask 0xffffffff wait in __shfl_xor_sync at mistakes.cu:$(here short-warp), but lane 20 does not exist"
  says behind 3 'no-gpu: kernel readsBehind, block (0, 0), thread ( && illegal or misaligned access && cudaErrorIllegalAddress, and it stays'
  says divide 3 'no-gpu: kernel divides, block (0, 0), thread ( && integer division by zero'
  says launch 3 "no-gpu: kernel launches, block (0, 0), thread (0, 0): launches kernel copies at mistakes.cu:$(here launch), which is not supported without a GPU && $fails"
  says much-shared 3 "no-gpu: kernel muchShared, block (0, 0): 24000 bytes of static and 40000 of dynamic shared memory with s_a at mistakes.cu:$(here much-shared), over 49152 && $fails"
  says big-block 3 "no-gpu: kernel copies at mistakes.cu:$(here big-block): block (1025, 1, 1): a GPU takes 1 to 1024 threads && cudaErrorInvalidConfiguration, and it passes"
  says tall-grid 3 "no-gpu: kernel copies at mistakes.cu:$(here tall-grid): grid (1, 65536, 1): a GPU takes 2147483647 x 65535 x 65535 && cudaErrorInvalidConfiguration, and it passes"
  says dynamic-much 3 "no-gpu: kernel copies at mistakes.cu:$(here dynamic-much): 49153 bytes of shared memory, over 49152 && cudaErrorInvalidValue, and it passes"
  expect "mistake left hides in forward order" 0 '' "$JOB/mistakes" left
  expect "mistake left, reverse" 1 '4080 of 4096 values are wrong' \
    env NOGPU_ORDER=reverse "$JOB/mistakes" left
  expect "mistake left, shuffled" 1 'values are wrong' \
    env NOGPU_ORDER=shuffle:5 "$JOB/mistakes" left
  # A shuffle prints the seed that repeats it.
  expect "a shuffle names its seed" 1 'threads are shuffled, NOGPU_ORDER=shuffle:' \
    env NOGPU_ORDER=shuffle "$JOB/mistakes" left
  order=$(sed -n 's/.*NOGPU_ORDER=//p' "$OUT")
  wrong=$(grep 'wrong$' "$OUT")
  for workers in 1 3; do
    expect "and repeats with it, $workers workers" 1 "$wrong" \
      env "NOGPU_ORDER=$order" NOGPU_THREADS=$workers "$JOB/mistakes" left
  done
  expect "an unknown order is named" 0 'NOGPU_ORDER is forward, reverse, shuffle' \
    env NOGPU_ORDER=backwards "$JOB/mistakes" left
  # Without a barrier a block needs one stack, with one a stack a thread.
  if [ "$(uname -s)" = Linux ]; then
    # shellcheck disable=SC3045  # Linux shells have it
    # shellcheck disable=SC2016
    limited='ulimit -v 200000; NOGPU_THREADS=1 exec "$JOB/mistakes" "$0"'
    expect "no barrier, one stack" 1 '64 of 64' sh -c "$limited" device-unset
    expect "a barrier, a stack a thread" 134 "memory for another thread's stack" \
      sh -c "$limited" loop
  fi
}

# sanitized COMPILER: what only the sanitizers see, with kernel and thread.
sanitized() {
  sanitizers "$1" || {
    skip "sanitized mistakes, $1" "$1 comes without the libraries"
    return 0
  }
  builds "sanitized mistakes.cu, $1, builds" "$1" "$JOB/mistakes" mistakes.cu \
    -g -O1 -Xcompiler -fsanitize=address,undefined || return 0
  export NOGPU_THREADS=1
  sees() { expect "sanitized mistake $1, $compiler" fail "$2" "$JOB/mistakes" "$1"; }
  sees behind "heap-buffer-overflow && mistakes.cu:$(here behind) && no-gpu: in kernel readsBehind, block (0, 0), thread (6, 0)"
  sees before "heap-buffer-overflow && mistakes.cu:$(here behind) && thread (0, 0)"
  sees far 'no-gpu: in kernel readsBehind, block (0, 0), thread (0, 0)'
  sees shared-bounds "mistakes.cu:$(here shared-bounds): && out of bounds && no-gpu: in kernel writesShared, block (0, 0), thread (30, 0)"
  sees shared-before "mistakes.cu:$(here shared-bounds): && out of bounds && no-gpu: in kernel writesShared, block (0, 0), thread (0, 0)"
  sees dynamic-bounds "use-after-poison && mistakes.cu:$(here dynamic-bounds) && no-gpu: in kernel writesDynamic, block (0, 0), thread (31, 0)"
  sees dynamic-none "use-after-poison && mistakes.cu:$(here dynamic-bounds) && thread (0, 0)"
  sees divide "mistakes.cu:$(here divide): && division by zero && no-gpu: in kernel divides, block (0, 0), thread (0, 0)"
  sees misaligned "mistakes.cu:$(here misaligned): && misaligned address && no-gpu: in kernel vectorLoad, block (0, 0), thread (0, 0)"
  sees freed 'points to host or freed memory'
}

# compiles NAME EXIT WORDS: the CUDA source on standard input, as code.cu.
compiles() {
  cat >"$JOB/code.cu"
  (cd "$JOB" && expect "$1" "$2" "$3" env NOGPU_CCCL=none sh "$stand_in" -c code.cu </dev/null)
}
refuses() {
  mkdir -p "$JOB/deep"
  compiles "managed memory is refused" fail 'code.cu:2: && managed memory is not supported without a GPU' <<'END'
// one line before
__managed__ int x;
END
  compiles "cudaMallocManaged is refused" fail 'code.cu:1: && cudaMallocManaged is not supported without a GPU' <<'END'
int main() { int* p; return cudaMallocManaged(&p, 4); }
END
  compiles "inline PTX is refused" fail 'code.cu:3: && inline PTX is not supported without a GPU && !expected' <<'END'
__device__ unsigned lane() {
  unsigned r;
  asm volatile("mov.u32 %0, %%laneid;"
               : "=r"(r));
  return r;
}
END
  compiles "textures are refused" fail 'tex2D is not supported without a GPU' <<'END'
__global__ void k(float* out) { tex2D(out, 1, 2); }
END
  compiles "graphs are refused" fail 'cudaGraphLaunch is not supported without a GPU' <<'END'
int main() { return cudaGraphLaunch(1, 2); }
END
  compiles "__shared__ outside a function is refused" fail 'code.cu:2: && __shared__ outside a function is not supported' <<'END'
namespace a { namespace { extern "C" {
extern __shared__ float s[];
}}}
END
  compiles "headers of the Toolkit are refused" fail 'code.cu:1: && <cooperative_groups.h> is not supported without a GPU && <mma.h> is not && <cuda_fp16.h> is not && code.cu:4: && <thrust/sort.h> is not && <cub/cub.cuh> is not' <<'END'
#include <cooperative_groups.h>
#include <mma.h>
#include <cuda_fp16.h>
#include <thrust/sort.h>
#include <cub/cub.cuh>
END
  compiles "what is switched off is not refused" 0 '!error' <<'END'
#if 0
#include <thrust/sort.h>
It's no C++: "
__managed__ int x;
#endif
#ifdef __CUDA_ARCH__
asm("bar.sync 0;");
#endif
END
  compiles "too much shared memory is refused" fail 'a block has 48 KiB of shared memory' <<'END'
__global__ void k(float* p) {
  __shared__ float s[12289];
  *p = s[0];
}
END
  compiles "too much constant memory is refused" fail 'code.cu:1: && constant memory has 65536 bytes && !code.cu:2' <<'END'
__constant__ unsigned char cPicture[3264 * 2448 * 4];
__constant__ float cFits[16384] = {1.0f}, cAlso; extern __constant__ float cElsewhere[];
END
  compiles "a launch that lacks an argument is refused" fail 'code.cu:3:' <<'END'
__global__ void k(int, int) {}
int main() {
  k<<<1, 1>>>(1);
}
END
  compiles "what is unknown is named" fail 'code.cu:1: && cudaDeviceFlushGPUDirectRDMAWrites' <<'END'
int main() { return cudaDeviceFlushGPUDirectRDMAWrites(1, 2); }
END
  compiles "fields that CUDA 13 dropped are refused" fail 'clockRate' <<'END'
int main() { return cudaDeviceProp().clockRate; }
END
  # Lines and files of compiler messages, through a header in a folder.
  cat >"$JOB/deep/part.cuh" <<'END'
#pragma once
/* two
   lines */
__global__ void k(int* p) {
  __shared__ int s[4], t  // a comment
      [2];
  *p = s[0] + t[0] + undeclared;
}
END
  compiles "messages name the header's line" fail 'deep/part.cuh:7: && code.cu:3: && !no-gpu.' <<'END'
#include "deep/part.cuh"
#include "./deep/part.cuh"
int x = alsoUndeclared;
END
  cat >"$JOB/deep/part.cuh" <<'END'
#pragma once
template <int N>
__global__ void fill(int* p) { __shared__ int s[N]; s[0] = 1; *p = s[0]; }
END
  compiles "a folder of -I is searched" fail 'code.cu:1: && part.cuh' <<'END'
#include <part.cuh>
int main() { fill<3><<<1, 1>>>(nullptr); }
END
  expect "and then found" 0 '' \
    sh "$stand_in" -I "$JOB/deep" -c -o "$JOB/code.o" "$JOB/code.cu"
  compiles "comments, strings, chars and raw strings stay" 0 '!error' <<'END'
// k<<<1, 1>>>(); "
/* __shared__ int x; ' */
static_assert(sizeof("<<<1, 1>>> __shared__ \" //") == 27, "");
static_assert(sizeof(R"x(<<<">>>)" /*)x") == 13, "");
static_assert('"' + 1'000 == 1034 && '\'' == 39, "");
template <class T> struct A {};
A<A<A<int>>> nested;
static_assert((1 << 2 << 3) == 32 && __LINE__ == 8, "");
END
}

options() {
  cat >"$JOB/part.cu" <<'END'
#include <cstdio>
__global__ void fill(int* p) { *p = VALUE; }
void run(int* p) { fill<<<1, 1>>>(p); }
END
  cat >"$JOB/main.cpp" <<'END'
#include <cuda_runtime.h>
#include <cstdio>
void run(int*);
int main() {
  int *d, h = 0, major = 0;
  cudaMalloc(&d, sizeof h);
  run(d);
  cudaMemcpy(&h, d, sizeof h, cudaMemcpyDeviceToHost);
  cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0);
  printf("value %d, major %d\n", h, major);
}
END
  cd "$JOB" || return 1
  expect "objects: -c" 0 '' sh "$stand_in" -DVALUE=42 -std c++17 -c part.cu
  expect "and linking, with many options" 0 '' sh "$stand_in" --std=c++17 -O 2 -g -G \
    -lineinfo -gencode arch=compute_90,code=sm_90 -Xptxas -v --use_fast_math \
    --expt-relaxed-constexpr --extended-lambda -Wno-deprecated-gpu-targets -lm -L . \
    -Xcompiler=-Wall -Xcompiler -Wextra,-Wshadow -o "two words" main.cpp part.o
  expect "the program runs" 0 'value 42, major 9' "./two words"
  expect "an unknown option is named" 1 'unknown option -frobnicate' \
    sh "$stand_in" -frobnicate part.cu
  expect "a missing value is named" 1 '-o needs a value' sh "$stand_in" part.cu -o
  expect "a missing file is named" 1 'no such file: none.cu' sh "$stand_in" none.cu
  expect "no file at all" 1 'no input files' sh "$stand_in" -O3
  expect "--version" 0 'nvcc (no GPU) 0.0.0' sh "$stand_in" --version
  expect "--help" 0 'sh exercises/no-gpu/nvcc -std=c++17' sh "$stand_in" --help
  expect "thread sanitizer is refused" 1 'cannot follow fibres' \
    sh "$stand_in" -fsanitize=thread part.cu
  expect "-Werror works" fail 'unused' sh "$stand_in" -c -DVALUE=unused -Xcompiler \
    -Wall -Werror all-warnings part.cu
  left=$(find "${TMPDIR:-/tmp}" -maxdepth 1 -name 'no-gpu.*' -newer part.cu -user \
    "$(id -un)" 2>/dev/null | wc -l)
  if [ "$left" -le "$JOBS" ]; then
    ok "temporary folders go"
  else
    notok "temporary folders go" "$left are left"
  fi
}

# A machine without the tools; and the timing that must be asked for.
tools() {
  shell=$(command -v sh)
  for name in compiler perl; do
    mkdir "$JOB/$name"
    # shellcheck disable=SC2016
    [ "$name" = compiler ] || printf '#!%s\n' "$shell" >"$JOB/$name/c++"
    [ "$name" = compiler ] || chmod +x "$JOB/$name/c++"
  done
  where='sudo apt install g++ perl && xcode-select --install && apt-get install -y g++ perl'
  expect "no compiler: what to install" 1 "No C++17 compiler found && $where" \
    env -u CXX PATH="$JOB/compiler" "$shell" "$stand_in" -o x features.cu
  expect "no Perl: what to install" 1 "Perl not found && $where" \
    env -u CXX PATH="$JOB/perl" "$shell" "$stand_in" -o x features.cu
  expect "a CXX that is not there" 1 "No C++17 compiler found (nonesuch) && $where" \
    env CXX=nonesuch "$shell" "$stand_in" -o x features.cu
  builds "model.cu builds" "$CXX" "$JOB/model" model.cu -O1 || return 0
  expect "no times unless asked for" 0 'timing: cudaErrorNotSupported' "$JOB/model"
  expect "times when asked for" 0 'timing: yes && all as expected' \
    env NOGPU_TIMING=1 "$JOB/model"
  builds "features.cu builds" "$CXX" "$JOB/features" features.cu -O1
  expect "and then say that they mean nothing" 0 \
    'device: CPU emulation, times mean nothing for a GPU' \
    env NOGPU_TIMING=1 "$JOB/features"
}

# The tests are CUDA: the real compiler takes them too.
toolkit() {
  if ! have nvcc; then
    skip "the tests are CUDA" "no CUDA Toolkit here"
    return 0
  fi
  for file in features.cu model.cu mistakes.cu; do
    expect -t 120 "$file is CUDA to the Toolkit's nvcc" 0 '!warning' \
      nvcc -std=c++17 -arch="$1" --extended-lambda -Xcompiler -Wall,-Wextra -Werror all-warnings \
      -c -o "$JOB/object.o" "$file"
  done
}

job() {
  set -- ${1:+$(echo "$1" | tr : ' ')}
  "$@"
}
version() { "$1" --version | sed 's/^[^ ]* //;q'; } # g++ and c++ may be one
compilers=$CXX
for other in g++ clang++; do
  if ! have "$other"; then
    skip "no-gpu with $other" "it is not installed"
  elif [ "$(version "$other")" != "$(version "$CXX")" ]; then
    compilers="$compilers $other"
  fi
done
set --
for compiler in $compilers; do
  set -- "$@" "supported:$compiler:features.cu" "supported:$compiler:model.cu" \
    "sanitized:$compiler"
done
run_parallel job "$@" mistakes refuses options tools toolkit:sm_75
