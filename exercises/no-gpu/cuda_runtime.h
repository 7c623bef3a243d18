// cuda_runtime.h - the part of CUDA that this project uses, on the CPU. The
// `nvcc` beside it puts it in front of every .cu file:
//   sh exercises/no-gpu/nvcc -std=c++17 -O3 -o convolution convolution.cu
//
// How a block runs. Each core has a worker; a worker takes one block after the
// other. Inside a block a fibre (a stack of its own, but no OS thread) runs
// thread after thread in a plain loop. Only when a thread has to wait, at a
// barrier or in a warp shuffle, is its fibre parked, and another fibre goes on
// with the next thread. When nobody can go on, all that are left wait: at one
// barrier, and they are let go, or in a way that hangs or breaks on a GPU, and
// the launch fails with a message. See Worker.
//
// NOGPU_ORDER=forward|reverse|shuffle|shuffle:SEED  order of a block's threads
// NOGPU_THREADS=N                                   number of workers
// NOGPU_TIMING=1                                    cudaEventElapsedTime
// answers SPDX-License-Identifier: MIT
#pragma once
#include <limits.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#define NOGPU_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define NOGPU_ASAN 1
#endif
#endif
#if NOGPU_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

// ------------------------------------------------------ words of the language
// __shared__ and <<< >>> are not among them: translate.pl replaces those.
// Kernels see __CUDA_ARCH__ undefined.
#define __global__
#define __device__
#define __host__
#define __constant__
#define __grid_constant__
#define __launch_bounds__(...)
#define __forceinline__ inline
#define __noinline__ __attribute__((noinline))
#define __restrict__ __restrict
#define __align__(n) __attribute__((aligned(n)))
#define CUDART_VERSION 0
#define CUDART_CB

// clang-format off
// Vectors are aligned as on a GPU, so that -fsanitize=undefined reports a
// misaligned access.
#define NOGPU_VECTOR(T, V, align2, align4)                                    \
  struct V##1 { T x; };                                                       \
  struct alignas(align2) V##2 { T x, y; };                                    \
  struct V##3 { T x, y, z; };                                                 \
  struct alignas(align4) V##4 { T x, y, z, w; };                              \
  constexpr V##1 make_##V##1(T x) { return {x}; }                             \
  constexpr V##2 make_##V##2(T x, T y) { return {x, y}; }                     \
  constexpr V##3 make_##V##3(T x, T y, T z) { return {x, y, z}; }             \
  constexpr V##4 make_##V##4(T x, T y, T z, T w) { return {x, y, z, w}; }
NOGPU_VECTOR(signed char, char, 2, 4)
NOGPU_VECTOR(unsigned char, uchar, 2, 4)
NOGPU_VECTOR(short, short, 4, 8)
NOGPU_VECTOR(unsigned short, ushort, 4, 8)
NOGPU_VECTOR(int, int, 8, 16)
NOGPU_VECTOR(unsigned, uint, 8, 16)
NOGPU_VECTOR(long long, longlong, 16, 16)
NOGPU_VECTOR(unsigned long long, ulonglong, 16, 16)
NOGPU_VECTOR(float, float, 8, 16)
NOGPU_VECTOR(double, double, 16, 16)

#define NOGPU_ERRORS(E)                                                       \
  E(cudaSuccess, 0, "no error")                                               \
  E(cudaErrorInvalidValue, 1, "invalid argument")                             \
  E(cudaErrorMemoryAllocation, 2, "out of memory")                            \
  E(cudaErrorInitializationError, 3, "initialization error")                  \
  E(cudaErrorInvalidConfiguration, 9, "invalid configuration argument")       \
  E(cudaErrorInvalidPitchValue, 12, "invalid pitch argument")                 \
  E(cudaErrorInvalidSymbol, 13, "invalid device symbol")                      \
  E(cudaErrorInvalidDevicePointer, 17, "invalid device pointer")              \
  E(cudaErrorInvalidMemcpyDirection, 21, "invalid copy direction for memcpy") \
  E(cudaErrorInsufficientDriver, 35,                                          \
    "CUDA driver version is insufficient for CUDA runtime version")           \
  E(cudaErrorInvalidDeviceFunction, 98, "invalid device function")            \
  E(cudaErrorNoDevice, 100, "no CUDA-capable device is detected")             \
  E(cudaErrorInvalidDevice, 101, "invalid device ordinal")                    \
  E(cudaErrorInvalidKernelImage, 200, "device kernel image is invalid")       \
  E(cudaErrorNoKernelImageForDevice, 209,                                     \
    "no kernel image is available for execution on the device")               \
  E(cudaErrorInvalidPtx, 218, "a PTX JIT compilation failed")                 \
  E(cudaErrorUnsupportedPtxVersion, 222,                                      \
    "the provided PTX was compiled with an unsupported toolchain.")           \
  E(cudaErrorInvalidResourceHandle, 400, "invalid resource handle")           \
  E(cudaErrorNotReady, 600, "device not ready")                               \
  E(cudaErrorIllegalAddress, 700, "an illegal memory access was encountered") \
  E(cudaErrorLaunchOutOfResources, 701,                                       \
    "too many resources requested for launch")                                \
  E(cudaErrorHostMemoryAlreadyRegistered, 712,                                \
    "part or all of the requested memory range is already mapped")            \
  E(cudaErrorHostMemoryNotRegistered, 713,                                    \
    "pointer does not correspond to a registered memory region")              \
  E(cudaErrorMisalignedAddress, 716, "misaligned address")                    \
  E(cudaErrorLaunchFailure, 719, "unspecified launch failure")                \
  E(cudaErrorNotSupported, 801, "operation not supported")                    \
  E(cudaErrorUnknown, 999, "unknown error")
#define NOGPU_ENUM(name, value, text) name = value,
enum cudaError { NOGPU_ERRORS(NOGPU_ENUM) };
#undef NOGPU_ENUM
// clang-format on
using cudaError_t = cudaError;
inline const char* cudaGetErrorName(cudaError_t e) {
#define NOGPU_CASE(name, value, text) e == value ? #name:
  return NOGPU_ERRORS(NOGPU_CASE) "unrecognized error code";
#undef NOGPU_CASE
}
inline const char* cudaGetErrorString(cudaError_t e) {
#define NOGPU_CASE(name, value, text) e == value ? text:
  return NOGPU_ERRORS(NOGPU_CASE) "unrecognized error code";
#undef NOGPU_CASE
}

struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1)
      : x(x), y(y), z(z) {}
  constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
  constexpr operator uint3() const { return {x, y, z}; }
};
inline thread_local uint3 threadIdx{}, blockIdx{};
inline thread_local dim3 blockDim{}, gridDim{};
constexpr int warpSize = 32;

// --------------------------------------------------------- switching of stacks
// nogpu_switch(&from, to) saves the registers that a call must keep on the
// running stack, stores the stack pointer in from, and goes on at to.
#if defined(__APPLE__)
#define NOGPU_LABEL ".text\n.p2align 4\n_nogpu_switch:\n"
#else
#define NOGPU_LABEL ".text\n.p2align 4\nnogpu_switch:\n"
#endif
extern "C" void nogpu_switch(void** from, void* to);
#if defined(__x86_64__)
asm(NOGPU_LABEL
    "push %rbp\n push %rbx\n push %r12\n push %r13\n push %r14\n push %r15\n"
    "mov %rsp, (%rdi)\n mov %rsi, %rsp\n"
    "pop %r15\n pop %r14\n pop %r13\n pop %r12\n pop %rbx\n pop %rbp\n ret\n");
constexpr int kNogpuFrame = 8, kNogpuEntry = 6;  // words; which is the return
#elif defined(__aarch64__)
asm(NOGPU_LABEL
    "sub sp, sp, #160\n stp x29, x30, [sp, #80]\n"
    "stp x19, x20, [sp]\n stp x21, x22, [sp, #16]\n stp x23, x24, [sp, #32]\n"
    "stp x25, x26, [sp, #48]\n stp x27, x28, [sp, #64]\n stp d8, d9, [sp, "
    "#96]\n"
    "stp d10, d11, [sp, #112]\n stp d12, d13, [sp, #128]\n"
    "stp d14, d15, [sp, #144]\n mov x9, sp\n str x9, [x0]\n mov sp, x1\n"
    "ldp x19, x20, [sp]\n ldp x21, x22, [sp, #16]\n ldp x23, x24, [sp, #32]\n"
    "ldp x25, x26, [sp, #48]\n ldp x27, x28, [sp, #64]\n ldp d8, d9, [sp, "
    "#96]\n"
    "ldp d10, d11, [sp, #112]\n ldp d12, d13, [sp, #128]\n"
    "ldp d14, d15, [sp, #144]\n"
    "ldp x29, x30, [sp, #80]\n add sp, sp, #160\n ret\n");
constexpr int kNogpuFrame = 20, kNogpuEntry = 11;
#else
#error "no-gpu: written for x86-64 and 64-bit Arm"
#endif

#ifndef NOGPU_SM  // nvcc -arch=sm_XX
#define NOGPU_SM 75
#endif
#define NOGPU_SITE nogpu::Site site = nogpu::here()
namespace nogpu {

// What a block may have: of threads, of shared memory, and when it asks for it.
constexpr unsigned kMaxThreads = 1024;
constexpr size_t kShared = 48 * 1024;
constexpr size_t kOptInShared = 1024 * (NOGPU_SM >= 90   ? 227
                                        : NOGPU_SM == 75 ? 64
                                        : NOGPU_SM == 80 ? 163
                                        : NOGPU_SM == 87 ? 163
                                        : NOGPU_SM > 80  ? 99
                                                         : 96);
constexpr size_t kMaxSharedNames = 512;  // __shared__ variables of a program

struct Site {  // a place in the student's source
  const char* file;
  int line;
  bool operator==(const Site& o) const {
    return line == o.line && (file == o.file || !strcmp(file, o.file));
  }
};
inline Site here(const char* file = __builtin_FILE(),
                 int line = __builtin_LINE()) {
  return {file, line};
}
inline std::ostream& operator<<(std::ostream& out, const Site& s) {
  return out << s.file << ':' << s.line;
}
template <class... T>
std::string text(const T&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}
inline std::string coordinates(uint3 v, bool deep) {
  return text("(", v.x, ", ", v.y, deep ? text(", ", v.z) : "", ")");
}
inline void print(const std::string& line) {
  fflush(stdout);
  fprintf(stderr, "no-gpu: %s\n", line.c_str());
}
inline std::string env(const char* name) {
  const char* value = getenv(name);
  return value ? value : "";
}
inline uint64_t hash(uint64_t x) {  // splitmix64: the random numbers
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return x ^ x >> 31;
}

struct Order {  // in which the threads of a block start
  bool reverse = false, shuffle = false;
  uint64_t seed = 0;
  Order() {
    const std::string word = env("NOGPU_ORDER");
    reverse = word == "reverse";
    shuffle = word.compare(0, 7, "shuffle") == 0;
    if (shuffle) {
      seed = word.size() > 8
                 ? strtoull(word.c_str() + 8, nullptr, 10)
                 : hash(static_cast<uint64_t>(time(nullptr) ^ getpid())) >> 40;
      print(text("shuffled threads; NOGPU_ORDER=shuffle:", seed, " repeats"));
    } else if (!reverse && !word.empty() && word != "forward") {
      print("NOGPU_ORDER is forward, reverse, shuffle or shuffle:SEED");
    }
  }
  static const Order& get() {
    static const Order order;
    return order;
  }
};

// --------------------------------------------------------------- how a block
// runs
struct Launch {
  const char* name;  // the kernel, as spelled at the launch
  dim3 grid, block;
  size_t dynamicShared, sharedLimit;
  void (*thread)(const void*);  // runs the kernel for one thread
  const void* arguments;
  std::atomic<uint64_t> nextBlock{0};
  std::atomic<int> failed{0};  // a cudaError
};

struct Fibre {
  void* sp = nullptr;  // where it goes on
  const void* stack = nullptr;
  size_t size = 0;
  void* fake = nullptr;  // AddressSanitizer's second stack
  uint3 thread{};        // the CUDA thread that it is running
  // While it waits: where, what it brings (in) and what it gets (out); in a
  // warp also for which lanes, and which lane it reads.
  Site site{};
  uint64_t in = 0, out = 0;
  const char* what = "";
  unsigned mask = 0;
  int source = 0;
};
constexpr int kVote = -1, kMatch = -2;  // sources that are no lane

struct Worker;
inline thread_local Worker* self = nullptr;

struct Worker {  // runs blocks, one at a time; one OS thread uses it
  Launch* launch = nullptr;    // null between launches
  unsigned count = 0;          // threads of a block
  unsigned next = 0;           // how many have started
  std::vector<uint3> threads;  // in the order in which they start
  Fibre main;                  // the worker's own stack
  Fibre *current = &main, *previous = nullptr;
  std::vector<std::unique_ptr<Fibre>> fibres;
  std::vector<Fibre*> idle, atBarrier;
  std::deque<Fibre*> ready;                 // let go, to run again
  Fibre* lanes[kMaxThreads] = {};           // of threads that wait in a warp
  unsigned waiting[kMaxThreads / 32] = {};  // the same, one bit a lane
  unsigned returned[kMaxThreads / 32] = {};
  char* arena = nullptr;  // the block's shared memory
  size_t arenaSize = 0, arenaUsed = 0, staticShared = 0;
  char* shared[kMaxSharedNames] = {};

  bool inKernel() const { return launch && current != &main; }
  std::string where() const {
    return text("kernel ", launch->name, ", block ",
                coordinates(blockIdx, launch->grid.z > 1));
  }
  std::string whereThread() const {
    return text(where(), ", thread ",
                coordinates(threadIdx, launch->block.z > 1));
  }
  // A launch's first failure is printed and stops it. Returns false.
  bool fail(const std::string& line, int code = cudaErrorLaunchFailure) {
    int none = 0;
    if (launch->failed.compare_exchange_strong(none, code)) print(line);
    return false;
  }
  void giveUp(const std::string& line, int code = cudaErrorLaunchFailure) {
    fail(line, code);
    switchTo(&main);  // and never come back
  }

  static void fibreMain() {
    Worker& w = *self;
#if NOGPU_ASAN
    __sanitizer_finish_switch_fiber(nullptr, &w.previous->stack,
                                    &w.previous->size);
#endif
    for (;;) {
      while (w.next < w.count && w.ready.empty() && !w.launch->failed) {
        threadIdx = w.threads[w.next++];
        w.launch->thread(w.launch->arguments);
        const unsigned t = w.linear(threadIdx);
        w.returned[t / 32] |= 1u << t % 32;
      }
      w.idle.push_back(w.current);
      w.switchTo(w.pick());
    }
  }
  Fibre* newFibre() {
    const size_t guard = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    const size_t size = 256 * 1024;  // of address space; few pages are touched
    void* memory = mmap(nullptr, guard + size, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANON | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED || mprotect(memory, guard, PROT_NONE)) {
      print("no memory for another thread's stack");
      abort();
    }
    // Tops are staggered: at equal offsets they would share a few cache sets.
    char* stack = static_cast<char*>(memory) + guard;
    char* top = stack + size - fibres.size() % 32 * 128;
    void** frame = reinterpret_cast<void**>(top) - kNogpuFrame;
    frame[kNogpuEntry] = reinterpret_cast<void*>(&fibreMain);
    fibres.emplace_back(new Fibre);
    Fibre* f = fibres.back().get();
    f->sp = frame;
    f->stack = stack;
    f->size = size;
    return f;
  }
  void switchTo(Fibre* to) {
    Fibre* from = current;
    if (to == from) return;
    from->thread = threadIdx;
    previous = from;
    current = to;
#if NOGPU_ASAN
    __sanitizer_start_switch_fiber(&from->fake, to->stack, to->size);
#endif
    nogpu_switch(&from->sp, to->sp);
#if NOGPU_ASAN
    __sanitizer_finish_switch_fiber(from->fake, nullptr, nullptr);
#endif
    threadIdx = from->thread;
  }
  // Who goes on: a fibre that was let go; else one that starts the next thread;
  // else the worker itself, which sees to those that wait.
  Fibre* pick() {
    if (launch->failed) return &main;
    if (ready.empty() && next == count) return &main;
    if (ready.empty() && idle.empty()) return newFibre();
    Fibre* f = ready.empty() ? idle.back() : ready.front();
    ready.empty() ? idle.pop_back() : ready.pop_front();
    return f;
  }

  void begin(Launch& l) {
    launch = &l;
    self = this;
    blockDim = l.block;
    gridDim = l.grid;
    count = l.block.x * l.block.y * l.block.z;
    threads.clear();
    for (unsigned z = 0; z < l.block.z; ++z)
      for (unsigned y = 0; y < l.block.y; ++y)
        for (unsigned x = 0; x < l.block.x; ++x) threads.push_back({x, y, z});
    if (Order::get().reverse) std::reverse(threads.begin(), threads.end());
    if (arena) return;
    arenaSize = kOptInShared + 256 * kMaxSharedNames;  // with room for redzones
    arena = static_cast<char*>(aligned_alloc(1024, arenaSize));
    static thread_local char signalStack[16 * 1024];
    stack_t s = {};
    s.ss_sp = signalStack;
    s.ss_size = sizeof signalStack;
    sigaltstack(&s, nullptr);
  }
  void run(uint64_t index) {  // a block
    const uint64_t x = launch->grid.x, y = launch->grid.y;
    blockIdx = {static_cast<unsigned>(index % x),
                static_cast<unsigned>(index / x % y),
                static_cast<unsigned>(index / (x * y))};
    if (Order::get().shuffle) {
      uint64_t random = Order::get().seed + index;
      for (unsigned i = count; i > 1; --i)
        std::swap(threads[i - 1], threads[(random = hash(random)) % i]);
    }
    next = 0;
    std::fill(std::begin(returned), std::end(returned), 0u);
    std::fill(std::begin(shared), std::end(shared), nullptr);
    arenaUsed = staticShared = 0;
#if NOGPU_ASAN
    __asan_poison_memory_region(arena, arenaSize);
#endif
    take(launch->dynamicShared);
    for (;;) {
      Fibre* f = pick();
      if (f != &main) {
        switchTo(f);
      } else if (launch->failed || !release()) {
        return;
      }
    }
  }
  // Shared memory starts as 0xFF bytes: NaN in floats, -1 in integers.
  char* take(size_t bytes) {
    char* p = arena + arenaUsed;
    arenaUsed += (bytes + 255) / 128 * 128;
#if NOGPU_ASAN
    __asan_unpoison_memory_region(p, bytes);
#endif
    return static_cast<char*>(memset(p, 0xFF, bytes));
  }

  void yield() {
    ready.push_back(current);
    switchTo(pick());
  }
  uint64_t barrier(uint64_t in, Site site) {
    Fibre* me = current;
    me->site = site;
    me->in = in;
    atBarrier.push_back(me);
    switchTo(pick());
    return me->out;
  }
  // All that are left wait. Lets go those that may go on; false: none.
  bool release() {
    bool warps = false;
    for (unsigned w = 0; w * 32 < count; ++w) {
      warps = warps || waiting[w];
      if (waiting[w]) releaseVote(w);
    }
    if (!ready.empty()) return true;
    if (warps) return failWarp();
    if (atBarrier.empty()) return false;
    uint64_t sum = 0;
    bool together = atBarrier.size() == count;
    for (Fibre* f : atBarrier) {
      sum += f->in;
      together = together && f->site == atBarrier[0]->site;
    }
    if (!together) return failBarrier();
    for (Fibre* f : atBarrier) f->out = sum;
    ready.assign(atBarrier.begin(), atBarrier.end());
    atBarrier.clear();
    return true;
  }
  bool failBarrier() {
    std::map<std::string, unsigned> sites;
    for (Fibre* f : atBarrier) ++sites[text(f->site)];
    const size_t held = atBarrier.size();
    if (sites.size() == 1)
      return fail(text(where(), ": ", count - held, " of ", count,
                       " threads returned before the barrier at ",
                       sites.begin()->first, " where ", held, " wait"));
    std::string list;
    for (auto& s : sites)
      list += text(list.empty() ? ": " : ", ", s.second,
                   list.empty() ? text(" of ", count) : "", " at ", s.first);
    if (held < count) list += text(", ", count - held, " returned");
    return fail(text(where(), ": threads at different barriers", list));
  }

  // ---- warps
  unsigned linear(uint3 t) const {
    return (t.z * launch->block.y + t.y) * launch->block.x + t.x;
  }
  uint64_t meet(const char* what, unsigned mask, uint64_t in, int source,
                Site site) {
    const unsigned t = linear(threadIdx), warp = t / 32;
    if (!(mask >> t % 32 & 1))
      giveUp(text(whereThread(), ": calls ", what, " with mask ", hex(mask),
                  ", which leaves out its own lane ", t % 32, ", at ", site));
    Fibre* me = lanes[t] = current;
    me->what = what;
    me->site = site;
    me->mask = mask;
    me->in = in;
    me->source = source;
    waiting[warp] |= 1u << t % 32;
    if ((waiting[warp] & mask) == mask) complete(warp, mask);
    switchTo(pick());
    return me->out;
  }
  // The lanes of `group` have met: works out what each gets and lets them go.
  void complete(unsigned warp, unsigned group) {
    Fibre** lane = lanes + warp * 32;
    const Fibre& first = *lane[__builtin_ctz(group)];
    unsigned vote = 0;
    for (unsigned i = 0; i < 32; ++i) {
      if (!(group >> i & 1)) continue;
      if (lane[i]->mask != first.mask || !(lane[i]->site == first.site)) return;
      vote |= (lane[i]->in ? 1u : 0u) << i;
    }
    for (unsigned n = 0; n < 32; ++n) {
      const unsigned i = Order::get().reverse ? 31 - n : n;
      if (!(group >> i & 1)) continue;
      Fibre& f = *lane[i];
      f.out = vote;
      if (f.source == kMatch) {
        f.out = 0;
        for (unsigned j = 0; j < 32; ++j)
          if (group >> j & 1 && lane[j]->in == f.in) f.out |= 1u << j;
      } else if (f.source >= 0) {
        if (!(group >> f.source & 1))
          fail(text(where(), ", warp ", warp, ": lane ", i, " reads lane ",
                    f.source, ", which is not in mask ", hex(f.mask), ", in ",
                    f.what, " at ", f.site));
        else
          f.out = lane[f.source]->in;
      }
      ready.push_back(&f);
    }
    waiting[warp] &= ~group;
  }
  void releaseVote(unsigned warp) {  // a vote goes on without those returned
    const Fibre& f = *lanes[warp * 32 + __builtin_ctz(waiting[warp])];
    const unsigned here = waiting[warp] & f.mask;
    if (f.source < 0 && !(f.mask & ~here & ~returned[warp] & exists(warp)))
      complete(warp, here);
  }
  unsigned exists(unsigned warp) const {  // the last warp may be short
    return count - warp * 32 < 32 ? (1u << (count - warp * 32)) - 1 : ~0u;
  }
  bool failWarp() {
    unsigned w = 0;
    while (!waiting[w]) ++w;
    const Fibre& f = *lanes[w * 32 + __builtin_ctz(waiting[w])];
    unsigned same = 0;
    std::string other;
    for (unsigned i = 0; i < 32; ++i) {
      const Fibre* o = lanes[w * 32 + i];
      const bool waits = waiting[w] >> i & 1;
      if (waits && o->site == f.site && o->mask == f.mask) {
        ++same;
      } else if (f.mask >> i & 1 && other.empty()) {
        other = text("lane ", i,
                     waits ? text(" waits in ", o->what, " at ", o->site)
                     : returned[w] >> i & 1 ? " has returned"
                     : exists(w) >> i & 1   ? " waits at a barrier"
                                            : " does not exist");
      }
    }
    return fail(text(where(), ", warp ", w, ": ", same, " of the ",
                     __builtin_popcount(f.mask), " lanes in mask ", hex(f.mask),
                     " wait in ", f.what, " at ", f.site, ", but ", other));
  }
  static std::string hex(unsigned mask) {
    char digits[16];
    snprintf(digits, sizeof digits, "0x%08x", mask);
    return digits;
  }
};

// A sanitizer or a signal stops the program: which thread was it?
inline void nameThread() {
  if (self && self->inKernel()) print(text("in ", self->whereThread()));
}
inline void onSignal(int number) {
  if (number == SIGABRT) nameThread();
  if (number != SIGABRT && self && self->inKernel())
    self->giveUp(text(self->whereThread(), number == SIGFPE
                                               ? ": integer division by zero"
                                               : ": illegal or misaligned memory access"),
                 cudaErrorIllegalAddress);
  signal(number, SIG_DFL);
}

struct Pool {  // of workers; the thread that launches is one of them
  std::mutex m;
  std::condition_variable wake, done;
  std::vector<std::unique_ptr<Worker>> workers;
  Launch* launch = nullptr;
  uint64_t launches = 0;
  size_t busy = 0;

  void run(Launch& l) {
    if (workers.empty()) start();
    std::unique_lock<std::mutex> lock(m);
    launch = &l;
    ++launches;
    busy = workers.size() - 1;
    lock.unlock();
    wake.notify_all();
    work(*workers[0], l);
    lock.lock();
    done.wait(lock, [&] { return busy == 0; });
  }
  static void work(Worker& w, Launch& l) {
    w.begin(l);
    const uint64_t blocks = uint64_t{l.grid.x} * l.grid.y * l.grid.z;
    for (uint64_t b; !l.failed && (b = l.nextBlock++) < blocks;) w.run(b);
    w.launch = nullptr;
  }
  void loop(Worker& w) {
    std::unique_lock<std::mutex> lock(m);
    for (uint64_t seen = 0;;) {
      wake.wait(lock, [&] { return launches != seen; });
      seen = launches;
      Launch& l = *launch;
      lock.unlock();
      work(w, l);
      lock.lock();
      if (--busy == 0) done.notify_one();
    }
  }
  void start() {
    // At most 16 unless asked: each may need 1024 stacks.
    const int asked = atoi(env("NOGPU_THREADS").c_str());
    const unsigned size =
        asked > 0 ? static_cast<unsigned>(asked)
                  : std::clamp(std::thread::hardware_concurrency(), 1u, 16u);
    while (workers.size() < size) workers.emplace_back(new Worker);
    for (size_t i = 1; i < size; ++i)
      std::thread([this, i] { loop(*workers[i]); }).detach();
#if NOGPU_ASAN
    __sanitizer_set_death_callback(nameThread);
#else
    struct sigaction action = {};
    action.sa_handler = onSignal;
    action.sa_flags = SA_NODEFER | SA_ONSTACK;
    for (int s : {SIGSEGV, SIGBUS, SIGFPE, SIGABRT})
      sigaction(s, &action, nullptr);
#endif
  }
};

}  // namespace nogpu

// UndefinedBehaviorSanitizer calls this before it reports.
extern "C" __attribute__((weak)) void __ubsan_on_report(void) {
  nogpu::nameThread();
}

// ------------------------------------------------------- memory, streams,
// events A stream is a queue of work that runs when the program waits for it
// and not before, so that a missing wait shows.
struct CUstream_st {
  struct Work {
    uint64_t number;  // in the order of the program
    std::function<void()> run;
  };
  std::deque<Work> queue;
  bool blocking = true;  // keeps order with the default stream
};
struct CUevent_st {
  CUstream_st* stream = nullptr;
  uint64_t asked = 0, done = 0;  // numbers of cudaEventRecord calls
  bool timed = true;
  std::chrono::steady_clock::time_point time;
};
using cudaStream_t = CUstream_st*;
using cudaEvent_t = CUevent_st*;
using cudaHostFn_t = void (*)(void*);
// clang-format off
enum cudaMemcpyKind { cudaMemcpyHostToHost, cudaMemcpyHostToDevice,
                      cudaMemcpyDeviceToHost, cudaMemcpyDeviceToDevice,
                      cudaMemcpyDefault };
enum cudaMemoryType { cudaMemoryTypeUnregistered, cudaMemoryTypeHost,
                      cudaMemoryTypeDevice };
// clang-format on
struct cudaPointerAttributes {
  cudaMemoryType type;
  int device;
  void *devicePointer, *hostPointer;
};

namespace nogpu {

struct Memory {
  size_t size;
  cudaMemoryType type;
  bool owned;  // to be freed: no __device__ variable, no registered memory
};
struct Pointer {  // among a kernel's parameters
  unsigned place;
  const void* address;
  bool constant;
};
struct Brackets {  // what stands before the arguments of a launch
  const char* name;
  const void* function;  // null: not known
  Site site;
  dim3 grid, block;
  size_t shared;
  cudaStream_t stream;
};

struct Device {
  std::recursive_mutex m;
  std::map<uintptr_t, Memory> memory;  // by address
  size_t used = 0;
  uint64_t number = 0;
  CUstream_st standard;  // the default stream
  std::set<CUstream_st*> streams;
  std::map<CUevent_st*, std::shared_ptr<CUevent_st>> events;
  std::map<const void*, size_t> sharedLimits;
  cudaError last = cudaSuccess, sticky = cudaSuccess;
  Pool pool;

  static Device& get() {
    static Device& only = *new Device;  // outlives the worker threads
    return only;
  }
  static size_t page() { return static_cast<size_t>(sysconf(_SC_PAGESIZE)); }
  static size_t total() {
    return page() * static_cast<size_t>(sysconf(_SC_PHYS_PAGES));
  }
  static uintptr_t number_of(const void* p) {
    return reinterpret_cast<uintptr_t>(p);
  }
  // The known memory that holds p, or ends at p.
  std::pair<const uintptr_t, Memory>* find(const void* p) {
    auto it = memory.upper_bound(number_of(p));
    if (it == memory.begin()) return nullptr;
    --it;
    return number_of(p) <= it->first + it->second.size ? &*it : nullptr;
  }
  bool isDevice(const void* p) {
    auto* found = find(p);
    return found && found->second.type == cudaMemoryTypeDevice;
  }
  bool fits(const void* p, size_t bytes) {
    auto* found = find(p);
    return !found || number_of(p) + bytes <= found->first + found->second.size;
  }
  // An allocation ends at a page that must not be touched; AddressSanitizer
  // guards its own. Device memory starts as 0xFF bytes.
  cudaError allocate(void** p, size_t bytes, cudaMemoryType type) {
    if (!p) return cudaErrorInvalidValue;
    *p = nullptr;
    if (!bytes) return cudaSuccess;
    if (bytes > total() || used + bytes > total())
      return cudaErrorMemoryAllocation;
#if NOGPU_ASAN
    if (posix_memalign(p, 256, bytes)) return cudaErrorMemoryAllocation;
#else
    const size_t rounded = (bytes + 255) / 256 * 256;
    const size_t size = (rounded + page() - 1) / page() * page();
    void* m = mmap(nullptr, size + page(), PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANON, -1, 0);
    if (m == MAP_FAILED) return cudaErrorMemoryAllocation;
    mprotect(static_cast<char*>(m) + size, page(), PROT_NONE);
    *p = static_cast<char*>(m) + size - rounded;
#endif
    if (type == cudaMemoryTypeDevice) memset(*p, 0xFF, bytes);
    used += bytes;
    memory[number_of(*p)] = {bytes, type, true};
    return cudaSuccess;
  }
  cudaError release(void* p, cudaMemoryType type, bool wait = true) {
    auto it = memory.find(number_of(p));
    if (!p) return cudaSuccess;
    if (it == memory.end() || it->second.type != type || !it->second.owned)
      return cudaErrorInvalidValue;
    if (wait) drain();
#if NOGPU_ASAN
    free(p);
#else
    const size_t lead = number_of(p) % page();
    munmap(static_cast<char*>(p) - lead, lead + it->second.size + page());
#endif
    used -= it->second.size;
    memory.erase(it);
    return cudaSuccess;
  }

  CUstream_st* stream(CUstream_st* s) {  // null: no such stream
    return !s ? &standard : streams.count(s) ? s : nullptr;
  }
  void add(CUstream_st* s, std::function<void()> run) {
    s->queue.push_back({++number, std::move(run)});
  }
  // Runs the oldest work of s, and first what has to come before it.
  void step(CUstream_st* s) {
    const uint64_t mine = s->queue.front().number;
    auto before = [&](CUstream_st* t) {
      while (!t->queue.empty() && t->queue.front().number < mine) step(t);
    };
    if (s != &standard && s->blocking) before(&standard);
    for (CUstream_st* t : streams)
      if (s == &standard && t->blocking) before(t);
    auto run = std::move(s->queue.front().run);
    s->queue.pop_front();
    if (!sticky) run();
  }
  void drain(CUstream_st* s) {
    while (!s->queue.empty()) step(s);
    for (CUstream_st* t : streams)
      if (s == &standard && t->blocking) drain(t);
  }
  // Everything, the youngest work first: only events give streams an order.
  void drain() {
    for (CUstream_st* next = &standard; next;) {
      if (!next->queue.empty()) step(next);
      next = standard.queue.empty() ? nullptr : &standard;
      for (CUstream_st* t : streams)
        if (!t->queue.empty() &&
            (!next || t->queue.front().number > next->queue.front().number))
          next = t;
    }
  }
  bool idle(CUstream_st* s) {
    bool none = s->queue.empty() && (!s->blocking || standard.queue.empty());
    for (CUstream_st* t : streams)
      none = none && (s != &standard || !t->blocking || t->queue.empty());
    return none;
  }
  void until(CUevent_st* e, uint64_t record) {
    while (e->done < record && !e->stream->queue.empty()) step(e->stream);
  }

  size_t sharedLimit(const void* function) {  // of dynamic shared memory
    size_t most = kShared;
    for (auto& set : sharedLimits)
      if (!function || set.first == function) most = std::max(most, set.second);
    return most;
  }
  // What a GPU refuses, and what it should.
  cudaError check(const Brackets& b, const std::vector<Pointer>& pointers) {
    const uint64_t threads = uint64_t{b.block.x} * b.block.y * b.block.z;
    auto refuse = [&](cudaError e, const std::string& why) {
      print(text("kernel ", b.name, " at ", b.site, ": ", why));
      return e;
    };
    if (!threads || threads > kMaxThreads || b.block.z > 64)
      return refuse(cudaErrorInvalidConfiguration,
                    text("a block of ", b.block.x, " x ", b.block.y, " x ",
                         b.block.z, " threads; a GPU takes 1 to 1024 in all"));
    if (!b.grid.x || !b.grid.y || !b.grid.z || b.grid.x > INT_MAX ||
        b.grid.y > 65535 || b.grid.z > 65535)
      return refuse(
          cudaErrorInvalidConfiguration,
          text("a grid of ", b.grid.x, " x ", b.grid.y, " x ", b.grid.z,
               " blocks; a GPU takes 1 to 2147483647 x "
               "65535 x 65535"));
    if (b.shared > sharedLimit(b.function))
      return refuse(cudaErrorInvalidValue,
                    text(b.shared, " bytes of dynamic shared memory, over ",
                         sharedLimit(b.function)));
    if (!stream(b.stream)) return cudaErrorInvalidResourceHandle;
    for (const Pointer& p : pointers) {
      if (!find(p.address))
        return sticky =
                   refuse(cudaErrorIllegalAddress, text("argument ", p.place,
                                                        " points to host or "
                                                        "freed memory"));
      for (const Pointer& q : pointers)
        if (p.constant && !q.constant && p.address == q.address)
          return sticky = refuse(cudaErrorLaunchFailure,
                                 text("in and out are the same buffer, "
                                      "arguments ",
                                      p.place, " and ", q.place));
    }
    return cudaSuccess;
  }
};

// A call of the API: one at a time, refused after a sticky error; its error is
// kept for cudaGetLastError.
template <class F>
cudaError api(F call) {
  Device& d = Device::get();
  std::lock_guard<std::recursive_mutex> lock(d.m);
  cudaError e = d.sticky ? d.sticky : call(d);
  if (d.sticky) e = d.sticky;
  if (e && e != cudaErrorNotReady) d.last = e;
  return e;
}
// The same, for a call that names a stream.
template <class F>
cudaError api(cudaStream_t stream, F call) {
  return api([&](Device& d) {
    CUstream_st* s = d.stream(stream);
    return s ? call(d, s) : cudaErrorInvalidResourceHandle;
  });
}

// Copies rows of `width` bytes.
inline cudaError copy(void* to, size_t toPitch, const void* from,
                      size_t fromPitch, size_t width, size_t rows,
                      cudaMemcpyKind kind, cudaStream_t stream, bool wait) {
  return api(stream, [&](Device& d, CUstream_st* s) {
    if (kind < cudaMemcpyHostToHost || kind > cudaMemcpyDefault)
      return cudaErrorInvalidMemcpyDirection;
    if (!width || !rows) return cudaSuccess;
    if (rows > 1 && (toPitch < width || fromPitch < width))
      return cudaErrorInvalidPitchValue;
    const bool toDevice = d.isDevice(to), fromDevice = d.isDevice(from);
    if (!to || !from || !d.fits(to, (rows - 1) * toPitch + width) ||
        !d.fits(from, (rows - 1) * fromPitch + width) ||
        (kind != cudaMemcpyDefault && kind != 2 * fromDevice + toDevice))
      return cudaErrorInvalidValue;
    auto work = [=](void* t, size_t tPitch, const void* f, size_t fPitch) {
      for (size_t r = 0; r < rows; ++r)
        memmove(static_cast<char*>(t) + r * tPitch,
                static_cast<const char*>(f) + r * fPitch, width);
    };
    if (toDevice && fromDevice) wait = false;
    if (!toDevice && !d.find(to)) wait = true;    // to pageable memory
    if (!wait && !fromDevice && !d.find(from)) {  // from it: read at once
      auto staged = std::make_shared<std::vector<char>>(width * rows);
      work(staged->data(), width, from, fromPitch);
      d.add(s, [=] { work(to, toPitch, staged->data(), width); });
    } else {
      d.add(s, [=] { work(to, toPitch, from, fromPitch); });
    }
    if (wait) d.drain(s);
    return cudaSuccess;
  });
}

// ------------------------------------------------------------------------
// launches
template <class T>
void note(std::vector<Pointer>&, unsigned, const T&) {}
template <class T>
void note(std::vector<Pointer>& list, unsigned place, T* p) {
  if (p && !std::is_function<T>::value)
    list.push_back(
        {place, reinterpret_cast<const void*>(p), std::is_const<T>::value});
}
// Arguments are copied now; the kernel runs when its stream does.
template <class F, class... A>
void submit(const Brackets& b, F kernel, A... arguments) {
  if (self && self->inKernel())
    self->giveUp(text(self->whereThread(), ": launches kernel ", b.name, " at ",
                      b.site, ", which is not supported without a GPU"));
  api([&](Device& d) {
    std::vector<Pointer> pointers;
    unsigned place = 0;
    (note(pointers, ++place, arguments), ...);
    const cudaError e = d.check(b, pointers);
    if (e) return e;
    using Bound = std::pair<F, std::tuple<A...>>;
    const bool raised = d.sharedLimit(b.function) > kShared;
    auto work = [&d, b, raised, bound = Bound(kernel, {arguments...})] {
      Launch l = {b.name,
                  b.grid,
                  b.block,
                  b.shared,
                  raised ? kOptInShared : kShared,
                  [](const void* p) {
                    const Bound& call = *static_cast<const Bound*>(p);
                    std::apply(call.first, call.second);
                  },
                  &bound};
      d.pool.run(l);
      if (l.failed) d.sticky = static_cast<cudaError>(l.failed.load());
    };
    d.add(d.stream(b.stream), work);
    return cudaSuccess;
  });
}
// translate.pl makes NOGPU_KERNEL(name).on(grid, block)(arguments) of a launch.
template <class... P>
struct Kernel {  // parameter types are known, arguments are converted to them
  const char* name;
  void (*function)(P...);
  auto on(dim3 grid, dim3 block, size_t shared = 0,
          cudaStream_t stream = nullptr, NOGPU_SITE) const {
    return [f = function,
            b = Brackets{name, reinterpret_cast<const void*>(function), site,
                         grid, block, shared, stream}](P... arguments) {
      submit(b, f, arguments...);
    };
  }
};
template <class F>
struct Deduced {  // a template whose arguments follow from the call
  const char* name;
  F function;
  auto on(dim3 grid, dim3 block, size_t shared = 0,
          cudaStream_t stream = nullptr, NOGPU_SITE) const {
    return [f = function,
            b = Brackets{name, nullptr, site, grid, block, shared, stream}](
               auto... arguments) { submit(b, f, arguments...); };
  }
};
template <class... P>
Kernel<P...> kernel(const char* name, void (*f)(P...)) {
  return {name, f};
}
template <class F>
Deduced<F> deduced(const char* name, F f) {
  return {name, f};
}
#define NOGPU_KERNEL(...) nogpu::kernel(#__VA_ARGS__, __VA_ARGS__)
#define NOGPU_DEDUCED(...) \
  nogpu::deduced(#__VA_ARGS__, [](auto... a) { __VA_ARGS__(a...); })

// And of __shared__ T name[N]: a reference to the block's copy. The lambda that
// each declaration passes has a type, and so a number, of its own.
inline std::atomic<unsigned> sharedNames{0};
template <class Tag>
inline const unsigned sharedNumber = sharedNames++;
template <class T, class Tag>
T& shared(const char* name, Tag, NOGPU_SITE) {
  static_assert(sizeof(T) <= kShared, "a block has 48 KiB of shared memory");
  const unsigned n = sharedNumber<Tag>;
  Worker& w = *self;
  if (n >= kMaxSharedNames) w.giveUp("too many __shared__ variables");
  if (!w.shared[n]) {
    w.staticShared += sizeof(T);
    const size_t dynamic = w.launch->dynamicShared;
    if (w.staticShared > kShared ||
        w.staticShared + dynamic > w.launch->sharedLimit)
      w.giveUp(text(w.where(), ": with ", name, " at ", site, " it has ",
                    w.staticShared, " bytes of static and ", dynamic,
                    " of dynamic shared memory, over ", kShared));
    w.shared[n] = w.take(sizeof(T));
  }
  return *reinterpret_cast<T*>(w.shared[n]);
}
template <class T>
T* dynamicShared() {
  return reinterpret_cast<T*>(self->arena);
}

}  // namespace nogpu

// ------------------------------------------------------------------------- the
// API
// clang-format off
#define NOGPU_API(signature, ...)                                            \
  inline cudaError_t signature {                                             \
    return nogpu::api([&](nogpu::Device& d) -> cudaError_t {                 \
      (void)d; __VA_ARGS__; return cudaSuccess; });                          \
  }
#define NOGPU_STREAM_API(signature, ...)                                     \
  inline cudaError_t signature {                                             \
    return nogpu::api(stream, [&](nogpu::Device& d, cudaStream_t s)          \
      -> cudaError_t { (void)d; __VA_ARGS__; return cudaSuccess; });         \
  }
constexpr unsigned
    cudaHostAllocDefault = 0, cudaHostAllocPortable = 1,
    cudaHostAllocMapped = 2, cudaHostAllocWriteCombined = 4,
    cudaHostRegisterDefault = 0, cudaStreamDefault = 0,
    cudaStreamNonBlocking = 1, cudaEventDefault = 0, cudaEventBlockingSync = 1,
    cudaEventDisableTiming = 2;
// clang-format on
inline cudaError_t cudaPeekAtLastError() {
  nogpu::Device& d = nogpu::Device::get();
  return d.sticky ? d.sticky : d.last;
}
inline cudaError_t cudaGetLastError() {
  const cudaError_t e = cudaPeekAtLastError();
  nogpu::Device::get().last = cudaSuccess;
  return e;
}
NOGPU_API(cudaMalloc(void** p, size_t bytes),
          return d.allocate(p, bytes, cudaMemoryTypeDevice))
NOGPU_API(cudaMallocHost(void** p, size_t bytes, unsigned = 0),
          return d.allocate(p, bytes, cudaMemoryTypeHost))
template <class T>
cudaError_t cudaMalloc(T** p, size_t bytes) {
  return cudaMalloc(reinterpret_cast<void**>(p), bytes);
}
template <class T>
cudaError_t cudaMallocHost(T** p, size_t bytes, unsigned flags = 0) {
  return cudaMallocHost(reinterpret_cast<void**>(p), bytes, flags);
}
template <class T>
cudaError_t cudaHostAlloc(T** p, size_t bytes, unsigned flags) {
  return cudaMallocHost(p, bytes, flags);
}
template <class T>
cudaError_t cudaMallocAsync(T** p, size_t bytes, cudaStream_t) {
  return cudaMalloc(p, bytes);
}
NOGPU_API(cudaFree(void* p), return d.release(p, cudaMemoryTypeDevice))
NOGPU_STREAM_API(cudaFreeAsync(void* p, cudaStream_t stream), {
  if (!d.isDevice(p)) return cudaErrorInvalidValue;
  d.add(s, [=, &d] { d.release(p, cudaMemoryTypeDevice, false); });
})
NOGPU_API(cudaFreeHost(void* p), return d.release(p, cudaMemoryTypeHost))
NOGPU_API(cudaHostRegister(void* p, size_t bytes, unsigned), {
  if (!p || !bytes) return cudaErrorInvalidValue;
  if (d.find(p)) return cudaErrorHostMemoryAlreadyRegistered;
  d.memory[d.number_of(p)] = {bytes, cudaMemoryTypeHost, false};
})
NOGPU_API(cudaHostUnregister(void* p), {
  auto it = d.memory.find(d.number_of(p));
  if (it == d.memory.end() || it->second.type != cudaMemoryTypeHost)
    return cudaErrorHostMemoryNotRegistered;
  d.drain();
  d.memory.erase(it);
})
NOGPU_API(cudaMemGetInfo(size_t* free, size_t* total), {
  *total = d.total();
  *free = *total - d.used;
})
NOGPU_API(cudaPointerGetAttributes(cudaPointerAttributes* a, const void* p), {
  auto* found = d.find(p);
  void* q = const_cast<void*>(p);
  const auto type = found ? found->second.type : cudaMemoryTypeUnregistered;
  *a = {type, 0, found ? q : nullptr,
        type != cudaMemoryTypeDevice ? q : nullptr};
})
inline cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes,
                              cudaMemcpyKind kind) {
  return nogpu::copy(to, bytes, from, bytes, bytes, 1, kind, nullptr, true);
}
inline cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes,
                                   cudaMemcpyKind kind,
                                   cudaStream_t stream = nullptr) {
  return nogpu::copy(to, bytes, from, bytes, bytes, 1, kind, stream, false);
}
inline cudaError_t cudaMemcpy2D(void* to, size_t toPitch, const void* from,
                                size_t fromPitch, size_t width, size_t rows,
                                cudaMemcpyKind kind) {
  return nogpu::copy(to, toPitch, from, fromPitch, width, rows, kind, nullptr,
                     true);
}
inline cudaError_t cudaMemcpy2DAsync(void* to, size_t toPitch, const void* from,
                                     size_t fromPitch, size_t width,
                                     size_t rows, cudaMemcpyKind kind,
                                     cudaStream_t stream = nullptr) {
  return nogpu::copy(to, toPitch, from, fromPitch, width, rows, kind, stream,
                     false);
}
NOGPU_STREAM_API(cudaMemsetAsync(void* p, int value, size_t bytes,
                                 cudaStream_t stream = nullptr),
                 if (bytes && (!d.find(p) ||
                               !d.fits(p, bytes))) return cudaErrorInvalidValue;
                 d.add(s, [=] { memset(p, value, bytes); }))
inline cudaError_t cudaMemset(void* p, int value, size_t bytes) {
  return cudaMemsetAsync(p, value, bytes);
}
template <class T>
cudaError_t cudaGetSymbolAddress(void** p, const T& symbol) {
  *p = const_cast<void*>(static_cast<const void*>(&symbol));
  return nogpu::api([&](nogpu::Device& d) {
    d.memory[d.number_of(*p)] = {sizeof(T), cudaMemoryTypeDevice, false};
    return cudaSuccess;
  });
}
template <class T>
cudaError_t cudaMemcpyToSymbol(const T& symbol, const void* from, size_t bytes,
                               size_t offset = 0,
                               cudaMemcpyKind kind = cudaMemcpyHostToDevice) {
  void* p;
  const cudaError_t e = cudaGetSymbolAddress(&p, symbol);
  return e ? e : cudaMemcpy(static_cast<char*>(p) + offset, from, bytes, kind);
}
template <class T>
cudaError_t cudaMemcpyToSymbolAsync(const T& symbol, const void* from,
                                    size_t bytes, size_t offset,
                                    cudaMemcpyKind kind,
                                    cudaStream_t stream = nullptr) {
  void* p;
  const cudaError_t e = cudaGetSymbolAddress(&p, symbol);
  return e ? e
           : cudaMemcpyAsync(static_cast<char*>(p) + offset, from, bytes, kind,
                             stream);
}
template <class T>
cudaError_t cudaMemcpyFromSymbol(void* to, const T& symbol, size_t bytes,
                                 size_t offset = 0,
                                 cudaMemcpyKind kind = cudaMemcpyDeviceToHost) {
  void* p;
  const cudaError_t e = cudaGetSymbolAddress(&p, symbol);
  return e ? e : cudaMemcpy(to, static_cast<char*>(p) + offset, bytes, kind);
}

NOGPU_API(cudaDeviceSynchronize(), d.drain())
NOGPU_API(cudaStreamCreateWithFlags(cudaStream_t* s, unsigned flags), {
  *s = new CUstream_st;
  (*s)->blocking = !(flags & cudaStreamNonBlocking);
  d.streams.insert(*s);
})
inline cudaError_t cudaStreamCreate(cudaStream_t* s) {
  return cudaStreamCreateWithFlags(s, cudaStreamDefault);
}
NOGPU_STREAM_API(cudaStreamDestroy(cudaStream_t stream), {
  if (!stream) return cudaErrorInvalidResourceHandle;
  d.drain(s);
  d.streams.erase(s);
  delete s;
})
NOGPU_STREAM_API(cudaStreamSynchronize(cudaStream_t stream), d.drain(s))
NOGPU_STREAM_API(cudaStreamQuery(cudaStream_t stream), {
  if (s->queue.empty()) return cudaSuccess;
  d.step(s);  // a loop that asks again and again comes to an end
  return cudaErrorNotReady;
})
NOGPU_STREAM_API(cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t f,
                                    void* p),
                 d.add(s, [=] { f(p); }))
NOGPU_API(cudaEventCreateWithFlags(cudaEvent_t* e, unsigned flags), {
  auto event = std::make_shared<CUevent_st>();
  event->timed = !(flags & cudaEventDisableTiming);
  d.events[*e = event.get()] = event;
})
inline cudaError_t cudaEventCreate(cudaEvent_t* e) {
  return cudaEventCreateWithFlags(e, cudaEventDefault);
}
NOGPU_API(cudaEventDestroy(cudaEvent_t e), {
  if (!d.events.erase(e)) return cudaErrorInvalidResourceHandle;
})
NOGPU_STREAM_API(cudaEventRecord(cudaEvent_t e, cudaStream_t stream = nullptr),
                 {
                   if (!d.events.count(e))
                     return cudaErrorInvalidResourceHandle;
                   const bool now = d.idle(s);  // nothing to wait for
                   const uint64_t record = e->asked = d.number + 1;
                   e->stream = s;
                   d.add(s, [event = d.events[e], record] {
                     event->done = std::max(event->done, record);
                     event->time = std::chrono::steady_clock::now();
                   });
                   if (now) d.step(s);
                 })
NOGPU_API(cudaEventSynchronize(cudaEvent_t e), {
  if (!d.events.count(e)) return cudaErrorInvalidResourceHandle;
  d.until(e, e->asked);
})
NOGPU_API(cudaEventQuery(cudaEvent_t e), {
  if (!d.events.count(e)) return cudaErrorInvalidResourceHandle;
  if (e->done == e->asked) return cudaSuccess;
  d.step(e->stream);
  return cudaErrorNotReady;
})
NOGPU_STREAM_API(cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t e,
                                     unsigned = 0),
                 {
                   if (!d.events.count(e))
                     return cudaErrorInvalidResourceHandle;
                   d.add(s, [&d, event = d.events[e], record = e->asked] {
                     d.until(event.get(), record);
                   });
                 })
inline cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t a,
                                        cudaEvent_t b) {
  const cudaError_t e = nogpu::api([&](nogpu::Device& d) {
    if (!d.events.count(a) || !d.events.count(b) || !a->asked || !b->asked ||
        !a->timed || !b->timed)
      return cudaErrorInvalidResourceHandle;
    if (a->done < a->asked || b->done < b->asked) return cudaErrorNotReady;
    *ms = std::chrono::duration<float, std::milli>(b->time - a->time).count();
    return cudaSuccess;
  });
  // Not kept for cudaGetLastError: the program is meant to go on without times.
  return e || nogpu::env("NOGPU_TIMING") == "1" ? e : cudaErrorNotSupported;
}

// ---------------------------------------------------------------------- the
// device
struct cudaDeviceProp {
  char name[256];
  size_t totalGlobalMem, sharedMemPerBlock, sharedMemPerBlockOptin,
      sharedMemPerMultiprocessor, totalConstMem, memPitch;
  int regsPerBlock, regsPerMultiprocessor, warpSize, maxThreadsPerBlock,
      maxThreadsDim[3], maxGridSize[3], major, minor, multiProcessorCount,
      maxThreadsPerMultiProcessor, maxBlocksPerMultiProcessor, integrated,
      canMapHostMemory, concurrentKernels, asyncEngineCount, unifiedAddressing,
      managedMemory, ECCEnabled, memoryBusWidth, l2CacheSize,
      persistingL2CacheMaxSize, pciBusID, pciDeviceID, pciDomainID;
};
// clang-format off
#define NOGPU_ATTRIBUTES(A)                                                    \
  A(MaxThreadsPerBlock, 1, 1024) A(MaxBlockDimX, 2, 1024)                      \
  A(MaxBlockDimY, 3, 1024) A(MaxBlockDimZ, 4, 64) A(MaxGridDimX, 5, INT_MAX)   \
  A(MaxGridDimY, 6, 65535) A(MaxGridDimZ, 7, 65535)                            \
  A(MaxSharedMemoryPerBlock, 8, nogpu::kShared)                                \
  A(TotalConstantMemory, 9, 65536) A(WarpSize, 10, 32)                         \
  A(MaxRegistersPerBlock, 12, 65536) A(ClockRate, 13, 0)                       \
  A(MultiProcessorCount, 16, std::thread::hardware_concurrency())              \
  A(Integrated, 18, 0) A(CanMapHostMemory, 19, 1) A(ComputeMode, 20, 0)        \
  A(ConcurrentKernels, 31, 1) A(EccEnabled, 32, 0) A(MemoryClockRate, 36, 0)   \
  A(GlobalMemoryBusWidth, 37, 0) A(L2CacheSize, 38, 0)                         \
  A(MaxThreadsPerMultiProcessor, 39, 1024) A(AsyncEngineCount, 40, 1)          \
  A(UnifiedAddressing, 41, 1) A(ComputeCapabilityMajor, 75, NOGPU_SM / 10)     \
  A(ComputeCapabilityMinor, 76, NOGPU_SM % 10)                                 \
  A(MaxSharedMemoryPerMultiprocessor, 81, nogpu::kOptInShared)                 \
  A(MaxRegistersPerMultiprocessor, 82, 65536) A(ManagedMemory, 83, 0)          \
  A(CooperativeLaunch, 95, 0)                                                  \
  A(MaxSharedMemoryPerBlockOptin, 97, nogpu::kOptInShared)                     \
  A(MaxBlocksPerMultiprocessor, 106, 16)
#define NOGPU_ENUM(name, number, value) cudaDevAttr##name = number,
enum cudaDeviceAttr { NOGPU_ATTRIBUTES(NOGPU_ENUM) };
#undef NOGPU_ENUM
enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize = 8,
                         cudaFuncAttributePreferredSharedMemoryCarveout = 9 };
// clang-format on
struct cudaFuncAttributes {
  size_t sharedSizeBytes, constSizeBytes, localSizeBytes;
  int maxThreadsPerBlock, numRegs, ptxVersion, binaryVersion,
      maxDynamicSharedSizeBytes, preferredShmemCarveout;
};
NOGPU_API(cudaGetDeviceCount(int* n), *n = 1)
NOGPU_API(cudaGetDevice(int* n), *n = 0)
NOGPU_API(cudaSetDevice(int n), if (n) return cudaErrorInvalidDevice)
NOGPU_API(cudaDeviceReset(), d.drain())
NOGPU_API(cudaDriverGetVersion(int* v), *v = 0)
NOGPU_API(cudaRuntimeGetVersion(int* v), *v = 0)
inline cudaError_t cudaDeviceGetAttribute(int* v, cudaDeviceAttr a, int n) {
#define NOGPU_CASE(name, number, value) a == number ? static_cast<int>(value):
  *v = NOGPU_ATTRIBUTES(NOGPU_CASE) 0;
#undef NOGPU_CASE
  return n ? cudaErrorInvalidDevice : cudaSuccess;
}
NOGPU_API(cudaGetDeviceProperties(cudaDeviceProp* p, int n), {
  if (n) return cudaErrorInvalidDevice;
  *p = cudaDeviceProp{};
  snprintf(p->name, sizeof p->name, "CPU emulation, %s",
           nogpu::env("NOGPU_TIMING") == "1" ? "times mean nothing for a GPU"
                                             : "no GPU timings");
  p->totalGlobalMem = d.total();
  p->sharedMemPerBlock = nogpu::kShared;
  p->sharedMemPerBlockOptin = nogpu::kOptInShared;
  p->sharedMemPerMultiprocessor = nogpu::kOptInShared;
  p->totalConstMem = 65536;
  p->memPitch = INT_MAX;
  p->regsPerBlock = p->regsPerMultiprocessor = 65536;
  p->warpSize = 32;
  p->maxThreadsPerBlock = p->maxThreadsDim[0] = p->maxThreadsDim[1] = 1024;
  p->maxThreadsPerMultiProcessor = 1024;
  p->maxBlocksPerMultiProcessor = 16;
  p->maxThreadsDim[2] = 64;
  p->maxGridSize[0] = INT_MAX;
  p->maxGridSize[1] = p->maxGridSize[2] = 65535;
  p->major = NOGPU_SM / 10;
  p->minor = NOGPU_SM % 10;
  cudaDeviceGetAttribute(&p->multiProcessorCount,
                         cudaDevAttrMultiProcessorCount, 0);
  p->canMapHostMemory = p->concurrentKernels = p->asyncEngineCount = 1;
  p->unifiedAddressing = 1;
})
template <class F>
cudaError_t cudaFuncSetAttribute(F* f, cudaFuncAttribute a, int value) {
  return nogpu::api([&](nogpu::Device& d) {
    if (a != cudaFuncAttributeMaxDynamicSharedMemorySize) return cudaSuccess;
    const size_t bytes = static_cast<size_t>(value);
    if (bytes > nogpu::kOptInShared) return cudaErrorInvalidValue;
    d.sharedLimits[reinterpret_cast<const void*>(f)] = bytes;
    return cudaSuccess;
  });
}
template <class F>
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* a, F* f) {
  return nogpu::api([&](nogpu::Device& d) {
    *a = cudaFuncAttributes{};
    a->maxThreadsPerBlock = nogpu::kMaxThreads;
    a->ptxVersion = a->binaryVersion = NOGPU_SM;
    a->maxDynamicSharedSizeBytes =
        static_cast<int>(d.sharedLimit(reinterpret_cast<const void*>(f)));
    return cudaSuccess;
  });
}
template <class F>
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, F*,
                                                          int threads,
                                                          size_t shared) {
  return nogpu::api([&](nogpu::Device&) {
    if (threads < 1) return cudaErrorInvalidValue;
    *blocks = std::min(16, 1024 / threads);
    if (shared) *blocks = std::min<int>(*blocks, nogpu::kOptInShared / shared);
    return cudaSuccess;
  });
}

// ---------------------------------------------------------------- device
// functions
inline void __syncthreads(NOGPU_SITE) {
  nogpu::self->barrier(0, site);
}
inline int __syncthreads_count(int p, NOGPU_SITE) {
  return static_cast<int>(nogpu::self->barrier(p != 0, site));
}
inline int __syncthreads_or(int p, NOGPU_SITE) {
  return nogpu::self->barrier(p != 0, site) != 0;
}
inline int __syncthreads_and(int p, NOGPU_SITE) {
  return nogpu::self->barrier(p == 0, site) == 0;
}
namespace nogpu {
template <class T, class From>
T bits(From v) {  // v's bytes as a T
  static_assert(std::is_arithmetic<T>::value && std::is_arithmetic<From>::value,
                "only numbers");
  T to = 0;
  memcpy(&to, &v, std::min(sizeof to, sizeof v));
  return to;
}
inline int lane() {
  return static_cast<int>(self->linear(threadIdx) % 32);
}
template <class T>
T shuffle(const char* what, unsigned mask, T v, int source, int width,
          Site site) {
  const int first = lane() & -width;
  if (source < first || source >= first + width) source = lane();
  return bits<T>(self->meet(what, mask, bits<uint64_t>(v), source, site));
}
}  // namespace nogpu
// clang-format off
#define NOGPU_VOTE(R, name, value, source, result)                             \
  template <class T>                                                           \
  R name(unsigned mask, T v, NOGPU_SITE) {                                     \
    const auto got = static_cast<unsigned>(                                    \
        nogpu::self->meet(#name, mask, value, source, site));                  \
    return result;                                                             \
  }
NOGPU_VOTE(unsigned, __ballot_sync, v != 0, nogpu::kVote, got)
NOGPU_VOTE(int, __any_sync, v != 0, nogpu::kVote, got != 0)
NOGPU_VOTE(int, __all_sync, v == 0, nogpu::kVote, got == 0)
NOGPU_VOTE(unsigned, __match_any_sync, nogpu::bits<uint64_t>(v), nogpu::kMatch, got)
#define NOGPU_SHUFFLE(name, By, source)                                        \
  template <class T>                                                           \
  T name(unsigned mask, T v, By by, int width = 32, NOGPU_SITE) {              \
    return nogpu::shuffle(#name, mask, v, source, width, site);                \
  }
NOGPU_SHUFFLE(__shfl_sync, int, (nogpu::lane() & -width) | (by & (width - 1)))
NOGPU_SHUFFLE(__shfl_up_sync, unsigned, nogpu::lane() - static_cast<int>(by))
NOGPU_SHUFFLE(__shfl_down_sync, unsigned, nogpu::lane() + static_cast<int>(by))
NOGPU_SHUFFLE(__shfl_xor_sync, int, nogpu::lane() ^ by)
// clang-format on
inline void __syncwarp(unsigned mask = ~0u, NOGPU_SITE) {
  nogpu::self->meet("__syncwarp", mask, 0, nogpu::kVote, site);
}
inline unsigned __activemask() {  // those of its warp that have not returned
  const unsigned warp = nogpu::self->linear(threadIdx) / 32;
  return nogpu::self->exists(warp) & ~nogpu::self->returned[warp];
}
inline void __nanosleep(unsigned) {
  nogpu::self->yield();
}
inline void __threadfence() {
  std::atomic_thread_fence(std::memory_order_seq_cst);
}
inline void __threadfence_block() {}
inline long long clock64() {
  return std::chrono::steady_clock::now().time_since_epoch().count();
}

// clang-format off
// Blocks run on several cores, so atomics are atomic indeed.
#define NOGPU_ATOMIC(name, result)                                             \
  template <class T, class V>                                                  \
  T name(T* p, V value) {                                                      \
    static_assert(sizeof(T) >= 4, #name " takes 32 or 64 bits");               \
    const T v = static_cast<T>(value);                                         \
    T old, next;                                                               \
    __atomic_load(p, &old, __ATOMIC_RELAXED);                                  \
    do next = static_cast<T>(result);                                          \
    while (!__atomic_compare_exchange(p, &old, &next, true, __ATOMIC_RELAXED,  \
                                      __ATOMIC_RELAXED));                      \
    return old;                                                                \
  }
NOGPU_ATOMIC(atomicAdd, old + v)
NOGPU_ATOMIC(atomicSub, old - v)
NOGPU_ATOMIC(atomicMin, v < old ? v : old)
NOGPU_ATOMIC(atomicMax, v > old ? v : old)
NOGPU_ATOMIC(atomicExch, v)
NOGPU_ATOMIC(atomicAnd, old & v)
NOGPU_ATOMIC(atomicOr, old | v)
NOGPU_ATOMIC(atomicXor, old ^ v)
NOGPU_ATOMIC(atomicInc, old >= v ? 0 : old + 1)
NOGPU_ATOMIC(atomicDec, old == 0 || old > v ? v : old - 1)
template <class T, class C, class V>
T atomicCAS(T* p, C compare, V value) {
  T old = static_cast<T>(compare), next = static_cast<T>(value);
  __atomic_compare_exchange(p, &old, &next, false, __ATOMIC_RELAXED,
                            __ATOMIC_RELAXED);
  return old;
}
#define NOGPU_LOAD(name) template <class T> T name(const T* p) { return *p; }
#define NOGPU_STORE(name) template <class T> void name(T* p, T v) { *p = v; }
NOGPU_LOAD(__ldg) NOGPU_LOAD(__ldca) NOGPU_LOAD(__ldcg) NOGPU_LOAD(__ldcs)
NOGPU_LOAD(__ldcv) NOGPU_LOAD(__ldlu) NOGPU_STORE(__stwb) NOGPU_STORE(__stwt)
NOGPU_STORE(__stcg) NOGPU_STORE(__stcs)

// Built with -ffp-contract=off: each operation rounds by itself.
#define NOGPU_MIN_MAX(R, A, B)                                                 \
  inline R min(A a, B b) { return R(b) < R(a) ? R(b) : R(a); }                 \
  inline R max(A a, B b) { return R(a) < R(b) ? R(b) : R(a); }
#define NOGPU_MIN_MAX_FLOAT(R, A, B)                                           \
  inline R min(A a, B b) { return std::fmin(R(a), R(b)); }                     \
  inline R max(A a, B b) { return std::fmax(R(a), R(b)); }
namespace nogpu {
using ulong = unsigned long; using llong = long long;
using ullong = unsigned long long;
}
NOGPU_MIN_MAX(int, int, int)
NOGPU_MIN_MAX(unsigned, unsigned, unsigned)
NOGPU_MIN_MAX(unsigned, int, unsigned)
NOGPU_MIN_MAX(unsigned, unsigned, int)
NOGPU_MIN_MAX(long, long, long)
NOGPU_MIN_MAX(nogpu::ulong, nogpu::ulong, nogpu::ulong)
NOGPU_MIN_MAX(nogpu::llong, nogpu::llong, nogpu::llong)
NOGPU_MIN_MAX(nogpu::ullong, nogpu::ullong, nogpu::ullong)
NOGPU_MIN_MAX_FLOAT(float, float, float)
NOGPU_MIN_MAX_FLOAT(double, double, double)
NOGPU_MIN_MAX_FLOAT(double, float, double)
NOGPU_MIN_MAX_FLOAT(double, double, float)
namespace nogpu {
template <class I> I convert(double v) {  // saturates; NaN becomes 0
  constexpr I least = std::numeric_limits<I>::min();
  constexpr I most = std::numeric_limits<I>::max();
  return v <= least ? least : v >= most ? most : v == v ? I(v) : I(0);
}
}
#define NOGPU_F(R, name, A, value) inline R name(A a) { return value; }
#define NOGPU_FF(T, name, value) inline T name(T a, T b) { return value; }
NOGPU_FF(float, __fadd_rn, a + b) NOGPU_FF(double, __dadd_rn, a + b)
NOGPU_FF(float, __fsub_rn, a - b) NOGPU_FF(double, __dsub_rn, a - b)
NOGPU_FF(float, __fmul_rn, a * b) NOGPU_FF(double, __dmul_rn, a * b)
NOGPU_FF(float, __fdiv_rn, a / b) NOGPU_FF(double, __ddiv_rn, a / b)
NOGPU_FF(float, __fdividef, a / b)
inline float __fmaf_rn(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
inline double __fma_rn(double a, double b, double c) { return __builtin_fma(a, b, c); }
NOGPU_F(float, __fsqrt_rn, float, sqrtf(a))
NOGPU_F(double, __dsqrt_rn, double, sqrt(a))
NOGPU_F(float, __frcp_rn, float, 1 / a)
NOGPU_F(float, __frsqrt_rn, float, static_cast<float>(1 / sqrt(double{a})))
NOGPU_F(float, rsqrtf, float, 1 / sqrtf(a))
NOGPU_F(double, rsqrt, double, 1 / sqrt(a))
NOGPU_F(float, __saturatef, float, a > 0 ? fminf(a, 1) : 0)
NOGPU_F(int, __float2int_rn, float, nogpu::convert<int>(rintf(a)))
NOGPU_F(int, __float2int_rz, float, nogpu::convert<int>(truncf(a)))
NOGPU_F(int, __float2int_rd, float, nogpu::convert<int>(floorf(a)))
NOGPU_F(int, __float2int_ru, float, nogpu::convert<int>(ceilf(a)))
NOGPU_F(unsigned, __float2uint_rn, float, nogpu::convert<unsigned>(rintf(a)))
NOGPU_F(unsigned, __float2uint_rz, float, nogpu::convert<unsigned>(truncf(a)))
NOGPU_F(float, __int2float_rn, int, static_cast<float>(a))
NOGPU_F(float, __uint2float_rn, unsigned, static_cast<float>(a))
NOGPU_F(int, __float_as_int, float, nogpu::bits<int>(a))
NOGPU_F(unsigned, __float_as_uint, float, nogpu::bits<unsigned>(a))
NOGPU_F(float, __int_as_float, int, nogpu::bits<float>(a))
NOGPU_F(float, __uint_as_float, unsigned, nogpu::bits<float>(a))
NOGPU_F(int, __popc, unsigned, __builtin_popcount(a))
NOGPU_F(int, __ffs, int, __builtin_ffs(a))
NOGPU_F(int, __clz, int, a ? __builtin_clz(static_cast<unsigned>(a)) : 32)
NOGPU_FF(int, __mul24, a * b)
NOGPU_FF(unsigned, __umulhi, static_cast<unsigned>(uint64_t{a} * b >> 32))
// clang-format on
inline unsigned __brev(unsigned a) {
  unsigned r = 0;
  for (int i = 0; i < 32; ++i) r |= (a >> i & 1u) << (31 - i);
  return r;
}
inline unsigned __byte_perm(unsigned a, unsigned b, unsigned selector) {
  unsigned r = 0;
  for (int i = 0; i < 4; ++i) {
    const unsigned s = selector >> 4 * i & 15u;
    const unsigned byte = (s & 4 ? b : a) >> 8 * (s & 3) & 255u;
    r |= (s & 8 ? byte >> 7 ? 255u : 0u : byte) << 8 * i;
  }
  return r;
}

// ------------------------------------------------------------------- what is
// not here
#define NOGPU_MISSING(name)                                                    \
  template <class... A>                                                        \
  cudaError_t name(A&&...) {                                                   \
    static_assert(sizeof...(A) > 99, #name " is not supported without a GPU"); \
    return cudaErrorNotSupported;                                              \
  }
NOGPU_MISSING(cudaMallocManaged)
NOGPU_MISSING(cudaMemPrefetchAsync)
NOGPU_MISSING(cudaMallocArray)
NOGPU_MISSING(cudaCreateTextureObject)
NOGPU_MISSING(tex2D)
NOGPU_MISSING(cudaStreamBeginCapture)
NOGPU_MISSING(cudaGraphCreate)
NOGPU_MISSING(cudaGraphLaunch)
NOGPU_MISSING(cudaLaunchKernel)
NOGPU_MISSING(cudaLaunchCooperativeKernel)
