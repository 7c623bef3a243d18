// cuda_runtime.h - the part of CUDA that this project uses, on the CPU.
//
// Included by the `nvcc` script beside it, first of all and in every .cu file:
//   sh exercises/no-gpu/nvcc -std=c++17 -O3 -o convolution convolution.cu
//
// How a block runs. Each core has a worker; a worker takes one block after the
// other. Inside a block a fibre (a stack of its own, no OS thread) runs thread
// after thread in a plain loop. Only when a thread has to wait, at a barrier or
// at a warp shuffle, its fibre is parked and another fibre goes on with the
// next thread. When nobody can go on, all that are left wait: at one barrier,
// and then they are let go, or in a way that would hang a GPU, and then the
// launch fails with a message. Kernels see __CUDA_ARCH__ undefined.
//
// Environment: NOGPU_ORDER = forward | reverse | shuffle | shuffle:SEED, the
// order of the threads of a block; NOGPU_THREADS = number of workers;
// NOGPU_TIMING = 1 lets cudaEventElapsedTime answer.
// SPDX-License-Identifier: MIT
#pragma once
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <climits>
#include <cmath>
#include <condition_variable>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <ctime>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define NOGPU_ASAN 1
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define NOGPU_ASAN 1
#endif
#if NOGPU_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#ifndef NOGPU_SM  // set by -arch=sm_XX
#define NOGPU_SM 75
#endif

// ---- Words of the language --------------------------------------------------
// __shared__ and <<< >>> are gone already: translate.pl has replaced them.
#define __global__
#define __device__
#define __host__
#define __constant__
#define __grid_constant__
#define __forceinline__ inline
#define __noinline__ __attribute__((noinline))
#define __restrict__ __restrict
#define __align__(n) __attribute__((aligned(n)))
#define __launch_bounds__(...)
#define CUDART_VERSION 0
#define CUDA_VERSION 0

// float4 and its family: 2 and 4 wide ones are aligned as a GPU wants them, so
// that -fsanitize=undefined reports a misaligned vector access.
#define NOGPU_VECTOR(T, V, align2, align4)         \
  struct V##1 {                                    \
    T x;                                           \
  };                                               \
  struct alignas(align2) V##2 {                    \
    T x, y;                                        \
  };                                               \
  struct V##3 {                                    \
    T x, y, z;                                     \
  };                                               \
  struct alignas(align4) V##4 {                    \
    T x, y, z, w;                                  \
  };                                               \
  constexpr V##1 make_##V##1(T x) {                \
    return {x};                                    \
  }                                                \
  constexpr V##2 make_##V##2(T x, T y) {           \
    return {x, y};                                 \
  }                                                \
  constexpr V##3 make_##V##3(T x, T y, T z) {      \
    return {x, y, z};                              \
  }                                                \
  constexpr V##4 make_##V##4(T x, T y, T z, T w) { \
    return {x, y, z, w};                           \
  }
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

// ---- Errors -----------------------------------------------------------------
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
  E(cudaErrorLaunchTimeout, 702, "the launch timed out and was terminated")   \
  E(cudaErrorHostMemoryAlreadyRegistered, 712,                                \
    "part or all of the requested memory range is already mapped")            \
  E(cudaErrorHostMemoryNotRegistered, 713,                                    \
    "pointer does not correspond to a registered memory region")              \
  E(cudaErrorMisalignedAddress, 716, "misaligned address")                    \
  E(cudaErrorLaunchFailure, 719, "unspecified launch failure")                \
  E(cudaErrorNotSupported, 801, "operation not supported")                    \
  E(cudaErrorUnknown, 999, "unknown error")
enum cudaError {
#define NOGPU_E(name, value, text) name = value,
  NOGPU_ERRORS(NOGPU_E)
#undef NOGPU_E
};
using cudaError_t = cudaError;
inline const char* cudaGetErrorName(cudaError_t e) {
#define NOGPU_E(name, value, text) \
  if (e == value) return #name;
  NOGPU_ERRORS(NOGPU_E)
#undef NOGPU_E
  return "unrecognized error code";
}
inline const char* cudaGetErrorString(cudaError_t e) {
#define NOGPU_E(name, value, text) \
  if (e == value) return text;
  NOGPU_ERRORS(NOGPU_E)
#undef NOGPU_E
  return "unrecognized error code";
}

// ---- Fibres -----------------------------------------------------------------
// nogpu_switch(&from, to) saves the registers that a call must keep on the
// running stack, stores the stack pointer in from, and goes on at to.
#if defined(__APPLE__)
#define NOGPU_ASM_NAME "_nogpu_switch"
#else
#define NOGPU_ASM_NAME "nogpu_switch"
#endif
#if defined(__x86_64__)
asm(".text\n" NOGPU_ASM_NAME
    ":\n"
    "push %rbp\n push %rbx\n push %r12\n push %r13\n push %r14\n push %r15\n"
    "mov %rsp, (%rdi)\n mov %rsi, %rsp\n"
    "pop %r15\n pop %r14\n pop %r13\n pop %r12\n pop %rbx\n pop %rbp\n ret\n");
extern "C" void nogpu_switch(void** from, void* to);
#elif defined(__aarch64__)
asm(".text\n.p2align 2\n" NOGPU_ASM_NAME
    ":\n"
    "sub sp, sp, #160\n"
    "stp x19, x20, [sp]\n stp x21, x22, [sp, #16]\n stp x23, x24, [sp, #32]\n"
    "stp x25, x26, [sp, #48]\n stp x27, x28, [sp, #64]\n"
    "stp x29, x30, [sp, #80]\n stp d8, d9, [sp, #96]\n"
    "stp d10, d11, [sp, #112]\n stp d12, d13, [sp, #128]\n"
    "stp d14, d15, [sp, #144]\n"
    "mov x9, sp\n str x9, [x0]\n mov sp, x1\n"
    "ldp x19, x20, [sp]\n ldp x21, x22, [sp, #16]\n ldp x23, x24, [sp, #32]\n"
    "ldp x25, x26, [sp, #48]\n ldp x27, x28, [sp, #64]\n"
    "ldp x29, x30, [sp, #80]\n ldp d8, d9, [sp, #96]\n"
    "ldp d10, d11, [sp, #112]\n ldp d12, d13, [sp, #128]\n"
    "ldp d14, d15, [sp, #144]\n"
    "add sp, sp, #160\n ret\n");
extern "C" void nogpu_switch(void** from, void* to);
#else
#include <ucontext.h>
inline void nogpu_switch(void** from, void* to) {
  ucontext_t here;  // lives on the stack that is being left
  *from = &here;
  swapcontext(&here, static_cast<ucontext_t*>(to));
}
#endif

#define NOGPU_SITE nogpu::Site site = nogpu::here()
namespace nogpu {

constexpr size_t kStaticShared = 48 * 1024;  // what every card offers a block
constexpr size_t kOptInShared = NOGPU_SM >= 90   ? 227 * 1024
                                : NOGPU_SM == 75 ? 64 * 1024
                                : NOGPU_SM == 80 ? 163 * 1024
                                : NOGPU_SM == 87 ? 163 * 1024
                                : NOGPU_SM > 80  ? 99 * 1024
                                                 : 96 * 1024;
constexpr unsigned kMaxThreads = 1024;   // of a block
constexpr size_t kMaxSharedNames = 512;  // __shared__ declarations in a program

struct Site {  // a place in the student's source
  const char* file;
  int line;
  bool operator==(const Site& o) const {
    return line == o.line && (file == o.file || !strcmp(file, o.file));
  }
};

// One launch, as the workers see it.
struct Launch {
  const char* name;  // the kernel, as spelled at the launch
  Site site;
  dim3 grid, block;
  size_t dynamicShared, sharedLimit;
  void (*thread)(const void*) = nullptr;  // runs the kernel once
  const void* arguments = nullptr;
  std::atomic<uint64_t> nextBlock{0};
  std::atomic<int> failed{0};  // a cudaError

  Launch(const char* n, Site s, dim3 g, dim3 b, size_t shared, size_t limit)
      : name(n),
        site(s),
        grid(g),
        block(b),
        dynamicShared(shared),
        sharedLimit(limit) {}
};

struct Fibre {
  void* sp = nullptr;     // where it goes on
  char* stack = nullptr;  // lowest byte
  size_t size = 0;
  void* fake = nullptr;  // AddressSanitizer's second stack
  uint3 thread{};        // the CUDA thread that it is running
  // What it waits for: a barrier (mask 0) or lanes of its warp, and with what.
  const char* what = "";
  Site site{};
  unsigned mask = 0;
  int source = 0;  // shuffle: lane to read; kVote; kMatch
  uint64_t in = 0, out = 0;
};
constexpr int kVote = -1, kMatch = -2;

inline std::string format(const char* text, ...)
    __attribute__((format(printf, 1, 2)));
inline std::string format(const char* text, ...) {
  char line[1024];
  va_list list;
  va_start(list, text);
  vsnprintf(line, sizeof line, text, list);
  va_end(list);
  return line;
}
inline std::string format(const Site& s) {
  return format("%s:%d", s.file, s.line);
}
inline Site here(const char* file = __builtin_FILE(),
                 int line = __builtin_LINE()) {
  return {file, line};
}
inline const char* env(const char* name, const char* otherwise) {
  const char* value = getenv(name);
  return value && *value ? value : otherwise;
}

struct Order {  // of the threads of a block
  bool reverse = false, shuffle = false;
  uint64_t seed = 0;
};
inline const Order& order() {
  static const Order chosen = [] {
    Order o;
    const std::string text = env("NOGPU_ORDER", "forward");
    o.reverse = text == "reverse";
    o.shuffle = text.compare(0, 7, "shuffle") == 0;
    if (text.size() > 8 && o.shuffle) {
      o.seed = strtoull(text.c_str() + 8, nullptr, 10);
    } else if (o.shuffle) {
      o.seed = static_cast<uint64_t>(time(nullptr)) ^ getpid() << 16;
    } else if (!o.reverse && text != "forward") {
      fprintf(stderr,
              "no-gpu: NOGPU_ORDER=%s is not forward, reverse, "
              "shuffle or shuffle:SEED; forward is used\n",
              text.c_str());
    }
    if (o.shuffle) {
      fprintf(stderr,
              "no-gpu: threads in shuffled order, "
              "NOGPU_ORDER=shuffle:%llu repeats it\n",
              static_cast<unsigned long long>(o.seed));
    }
    return o;
  }();
  return chosen;
}
inline uint64_t hash(uint64_t x) {  // splitmix64, also the random numbers
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return x ^ x >> 31;
}

struct Worker;
inline thread_local Worker* self = nullptr;

// Runs blocks, one at a time. All members belong to one OS thread.
struct Worker {
  Launch* launch = nullptr;      // null between launches
  unsigned count = 0, next = 0;  // threads of the block, started so far
  std::vector<uint3> threads;    // in the order in which they start
  Fibre main;                    // the worker's own stack
  Fibre* current = &main;
  Fibre* previous = nullptr;
  std::vector<Fibre*> idle, ready, atBarrier;
  size_t readyHead = 0;
  Fibre* lanes[kMaxThreads] = {};           // waiting in a warp collective
  unsigned waiting[kMaxThreads / 32] = {};  // the same, one bit a lane
  char* arena = nullptr;                    // the block's shared memory
  size_t arenaSize = 0, arenaUsed = 0, staticUsed = 0;
  char* shared[kMaxSharedNames] = {};
  unsigned fibres = 0;

  std::string where() const {
    const uint3 b = blockIdx;
    return launch->grid.z > 1
               ? format("kernel %s, block (%u, %u, %u)", launch->name, b.x, b.y,
                        b.z)
               : format("kernel %s, block (%u, %u)", launch->name, b.x, b.y);
  }
  std::string whereThread() const {
    const uint3 t = threadIdx;
    return where() + (launch->block.z > 1
                          ? format(", thread (%u, %u, %u)", t.x, t.y, t.z)
                          : format(", thread (%u, %u)", t.x, t.y));
  }
  // The first failure of a launch is printed, and stops it.
  void fail(const std::string& text, cudaError code = cudaErrorLaunchFailure) {
    int none = 0;
    if (launch->failed.compare_exchange_strong(none, code)) {
      fflush(stdout);
      fprintf(stderr, "no-gpu: %s\n", text.c_str());
    }
  }
  [[noreturn]] void abandonThread() {  // its fibre is never run again
    switchTo(&main);
    abort();
  }

  // -- fibres
  static void fibreMain() {
    Worker& w = *self;
#if NOGPU_ASAN
    const void* bottom;
    __sanitizer_finish_switch_fiber(nullptr, &bottom, &w.previous->size);
    w.previous->stack = static_cast<char*>(const_cast<void*>(bottom));
#endif
    for (;;) {
      while (w.next < w.count && w.readyHead == w.ready.size() &&
             !w.launch->failed) {
        threadIdx = w.threads[w.next++];
        w.launch->thread(w.launch->arguments);
      }
      w.idle.push_back(w.current);
      w.switchTo(w.pick());
    }
  }
  Fibre* newFibre() {
    const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
#if NOGPU_ASAN
    const size_t size = 256 * 1024;
#else
    const size_t size = 64 * 1024;
#endif
    // A guard page below; tops are staggered, or all would share cache sets.
    void* memory = mmap(nullptr, size + page, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANON, -1, 0);
    if (memory == MAP_FAILED || mprotect(memory, page, PROT_NONE)) {
      fprintf(stderr, "no-gpu: no memory for a thread's stack\n");
      abort();
    }
    auto* f = new Fibre;
    f->stack = static_cast<char*>(memory) + page;
    f->size = size;
    char* top = f->stack + size - fibres++ % 32 * 128;
#if defined(__x86_64__)
    void** slot = reinterpret_cast<void**>(top) - 8;  // 6 registers, ret, 0
    slot[6] = reinterpret_cast<void*>(&fibreMain);
    f->sp = slot;
#elif defined(__aarch64__)
    void** slot = reinterpret_cast<void**>(top) - 20;
    slot[11] = reinterpret_cast<void*>(&fibreMain);
    f->sp = slot;
#else
    auto* context = new ucontext_t;
    getcontext(context);
    context->uc_stack.ss_sp = f->stack;
    context->uc_stack.ss_size = static_cast<size_t>(top - f->stack);
    makecontext(context, fibreMain, 0);
    f->sp = context;
#endif
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
  // Who goes on: a fibre that was let go, else one that starts the next thread,
  // else the worker itself, which sees to those that wait.
  Fibre* pick() {
    if (launch->failed) return &main;
    if (readyHead < ready.size()) {
      Fibre* f = ready[readyHead++];
      if (readyHead == ready.size()) ready.clear(), readyHead = 0;
      return f;
    }
    if (next == count) return &main;
    if (idle.empty()) return newFibre();
    Fibre* f = idle.back();
    idle.pop_back();
    return f;
  }

  // -- a block
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
    if (order().reverse) std::reverse(threads.begin(), threads.end());
    // Room for the shared memory, and for redzones around each variable.
    const size_t room = kOptInShared + 256 * (kMaxSharedNames + 2);
    if (!arena) {
      arena = static_cast<char*>(aligned_alloc(256, room / 256 * 256));
      arenaSize = room / 256 * 256;
    }
  }
  void run(uint64_t index) {
    const uint64_t x = launch->grid.x, y = launch->grid.y;
    blockIdx = {static_cast<unsigned>(index % x),
                static_cast<unsigned>(index / x % y),
                static_cast<unsigned>(index / (x * y))};
    if (order().shuffle) {
      uint64_t random = order().seed + index;
      for (unsigned i = count; i > 1; --i) {
        random = hash(random);
        std::swap(threads[i - 1], threads[random % i]);
      }
    }
    next = 0;
    std::fill(std::begin(shared), std::end(shared), nullptr);
    staticUsed = arenaUsed = 0;
#if NOGPU_ASAN
    __asan_poison_memory_region(arena, arenaSize);
#endif
    take(launch->dynamicShared);
    for (;;) {
      Fibre* f = pick();
      if (f != &main) {
        switchTo(f);
      } else if (launch->failed || !release()) {
        break;
      }
    }
  }
  // Shared memory starts as 0xFF bytes: NaN in floats, -1 in integers.
  char* take(size_t bytes) {
    char* p = arena + arenaUsed;
    arenaUsed += (bytes + 128 + 127) / 128 * 128;
#if NOGPU_ASAN
    __asan_unpoison_memory_region(p, bytes);
#endif
    memset(p, 0xFF, bytes);
    return p;
  }
  // All that are left wait. Let go those that may go on; false: nobody waits,
  // or nobody may.
  bool release() {
    bool warps = false, any = false;
    for (unsigned w = 0; w * 32 < count; ++w) {
      if (!waiting[w]) continue;
      warps = true;
      any |= releaseVote(w);
    }
    if (any || warps) return any || failWarp();
    if (atBarrier.empty()) return false;
    const Fibre& first = *atBarrier.front();
    uint64_t sum = 0;
    std::vector<std::pair<Site, unsigned>> sites;
    for (Fibre* f : atBarrier) {
      sum += f->in;
      if (sites.empty() || !(sites.back().first == f->site)) {
        size_t i = 0;
        while (i < sites.size() && !(sites[i].first == f->site)) ++i;
        if (i == sites.size()) sites.push_back({f->site, 0});
        std::swap(sites[i], sites.back());
      }
      ++sites.back().second;
    }
    const unsigned held = static_cast<unsigned>(atBarrier.size());
    if (sites.size() > 1) {
      std::string text = where() + ": threads wait at different barriers: ";
      for (size_t i = 0; i < sites.size(); ++i)
        text +=
            format("%s%u of %u at ", i ? ", " : "", sites[i].second, count) +
            format(sites[i].first);
      if (held < count) text += format(", %u returned", count - held);
      fail(text);
      return false;
    }
    if (held < count) {
      fail(where() +
           format(": %u of %u threads returned before the barrier at ",
                  count - held, count) +
           format(first.site) + format(" where %u wait", held));
      return false;
    }
    for (Fibre* f : atBarrier) f->out = sum;
    ready.swap(atBarrier);
    return true;
  }
  uint64_t barrier(uint64_t in, Site site) {
    Fibre* me = current;
    me->site = site;
    me->in = in;
    atBarrier.push_back(me);
    switchTo(pick());
    return me->out;
  }

  // -- a warp
  unsigned linear(uint3 t) const {
    return (t.z * launch->block.y + t.y) * launch->block.x + t.x;
  }
  uint64_t meet(const char* what, unsigned mask, uint64_t in, int source,
                Site site) {
    const unsigned t = linear(threadIdx), warp = t / 32, lane = t % 32;
    if (!(mask >> lane & 1)) {
      fail(whereThread() +
           format(": lane %u calls %s with mask 0x%08x, which "
                  "leaves it out, at ",
                  lane, what, mask) +
           format(site));
      abandonThread();
    }
    Fibre* me = current;
    me->what = what;
    me->site = site;
    me->mask = mask;
    me->in = in;
    me->source = source;
    lanes[t] = me;
    waiting[warp] |= 1u << lane;
    if ((waiting[warp] & mask) == mask) complete(warp, mask);
    switchTo(pick());
    return me->out;
  }
  // The lanes `group` of a warp have met: work out what each gets.
  void complete(unsigned warp, unsigned group) {
    Fibre** lane = lanes + warp * 32;
    const Fibre& first = *lane[__builtin_ctz(group)];
    unsigned vote = 0;
    for (unsigned i = 0; i < 32; ++i) {
      if (!(group >> i & 1)) continue;
      if (lane[i]->mask != first.mask || !(lane[i]->site == first.site)) return;
      vote |= (lane[i]->in ? 1u : 0u) << i;
    }
    for (unsigned i = 0; i < 32; ++i) {
      if (!(group >> i & 1)) continue;
      Fibre& f = *lane[i];
      f.out = vote;
      if (f.source == kMatch) {
        f.out = 0;
        for (unsigned j = 0; j < 32; ++j)
          if (group >> j & 1 && lane[j]->in == f.in) f.out |= 1u << j;
      } else if (f.source >= 0) {
        if (!(group >> f.source & 1)) {
          fail(where() +
               format(", warp %u: lane %u reads lane %d, which is not "
                      "in mask 0x%08x, %s at ",
                      warp, i, f.source, f.mask, f.what) +
               format(f.site));
          return;
        }
        f.out = lane[f.source]->in;
      }
    }
    waiting[warp] &= ~group;
    for (unsigned i = 0; i < 32; ++i) {
      const unsigned j = order().reverse ? 31 - i : i;
      if (group >> j & 1) ready.push_back(lane[j]);
    }
  }
  unsigned live(uint3 thread) const {  // lanes of its warp not yet returned
    (void)thread;
    return ~0u;
  }
  void yield() {
    ready.push_back(current);
    switchTo(pick());
  }
  unsigned atBarrierLanes(unsigned warp) const {
    unsigned bits = 0;
    for (Fibre* f : atBarrier)
      if (linear(f->thread) / 32 == warp) bits |= 1u << linear(f->thread) % 32;
    return bits;
  }
  // A vote does not need the lanes that have returned.
  bool releaseVote(unsigned warp) {
    const unsigned first = waiting[warp] & -waiting[warp];
    const Fibre& f = *lanes[warp * 32 + __builtin_ctz(first)];
    const unsigned here = waiting[warp] & f.mask;
    if (f.source >= 0 || atBarrierLanes(warp) & f.mask) return false;
    complete(warp, here);
    return !(waiting[warp] & here);
  }
  bool failWarp() {
    unsigned warp = 0;
    while (!waiting[warp]) ++warp;
    const unsigned here = waiting[warp], barred = atBarrierLanes(warp);
    const Fibre& f = *lanes[warp * 32 + __builtin_ctz(here)];
    unsigned same = 0;
    std::string other;
    for (unsigned i = 0; i < 32; ++i) {
      const Fibre* o = lanes[warp * 32 + i];
      if (here >> i & 1 && o->site == f.site && o->mask == f.mask) {
        ++same;
      } else if (f.mask >> i & 1 && other.empty()) {
        other = here >> i & 1
                    ? format("waits in %s at ", o->what) + format(o->site)
                : barred >> i & 1 ? "waits at a barrier"
                                  : "has returned or does not exist";
        other = format("lane %u ", i) + other;
      }
    }
    fail(where() +
         format(", warp %u: %u of the %d lanes in mask 0x%08x wait "
                "in %s at ",
                warp, same, __builtin_popcount(f.mask), f.mask, f.what) +
         format(f.site) + "; " + other);
    return false;
  }
};

// Called when a sanitizer or a signal stops the program: who was running?
inline void nameThread() {
  if (self && self->launch && self->current != &self->main)
    fprintf(stderr, "no-gpu: in %s\n", self->whereThread().c_str());
}
inline void onSignal(int number) {
  if (self && self->launch && self->current != &self->main) {
    self->fail(
        self->whereThread() + (number == SIGFPE ? ": integer division by zero"
                                                : ": illegal memory access"),
        cudaErrorIllegalAddress);
    self->abandonThread();
  }
  signal(number, SIG_DFL);
}

// ---- Workers ----------------------------------------------------------------
struct Pool {
  std::mutex m;
  std::condition_variable wake, done;
  Launch* job = nullptr;
  uint64_t turn = 0;
  unsigned busy = 0, size = 0;

  static void work(Launch& l) {
    thread_local std::unique_ptr<Worker> mine(new Worker);
    Worker& w = *mine;
    w.begin(l);
    const uint64_t blocks = uint64_t{l.grid.x} * l.grid.y * l.grid.z;
    for (uint64_t b; !l.failed && (b = l.nextBlock++) < blocks;) w.run(b);
    w.launch = nullptr;
  }
  void loop() {
    for (uint64_t seen = 0;;) {
      std::unique_lock<std::mutex> lock(m);
      wake.wait(lock, [&] { return turn != seen; });
      seen = turn;
      Launch* l = job;
      lock.unlock();
      work(*l);
      lock.lock();
      if (--busy == 0) done.notify_one();
    }
  }
  void run(Launch& l) {
    if (!size) start();
    std::unique_lock<std::mutex> lock(m);
    job = &l;
    ++turn;
    busy = size - 1;
    lock.unlock();
    wake.notify_all();
    work(l);
    lock.lock();
    done.wait(lock, [&] { return busy == 0; });
  }
  void start() {
    // 16 by default: a thousand stacks each, and mappings are limited.
    const unsigned cores = std::max(1u, std::thread::hardware_concurrency());
    const int asked = atoi(env("NOGPU_THREADS", "0"));
    size = asked > 0 ? static_cast<unsigned>(asked) : std::min(16u, cores);
    for (unsigned i = 1; i < size; ++i)
      std::thread([this] { loop(); }).detach();
#if NOGPU_ASAN
    __sanitizer_set_death_callback(nameThread);
#else
    struct sigaction action = {};
    action.sa_handler = onSignal;
    action.sa_flags = SA_NODEFER;
    for (int s : {SIGSEGV, SIGBUS, SIGFPE}) sigaction(s, &action, nullptr);
#endif
  }
};

}  // namespace nogpu

// UndefinedBehaviorSanitizer calls this, where it is linked in.
extern "C" __attribute__((weak)) void __ubsan_on_report(void) {
  nogpu::nameThread();
}

// ---- Memory, streams, events ------------------------------------------------
// A stream is a queue of work that runs when the program waits for it, and not
// before: a missing wait shows.
struct CUstream_st {
  struct Work {
    uint64_t number;  // in the order of the program
    std::function<void()> run;
  };
  std::deque<Work> queue;
  bool blocking = true;  // orders itself with the default stream
};
struct CUevent_st {
  CUstream_st* stream = nullptr;
  uint64_t asked = 0, done = 0;  // the number of the record call
  bool timing = true;
  std::chrono::steady_clock::time_point time;
};
using cudaStream_t = CUstream_st*;
using cudaEvent_t = CUevent_st*;
using cudaHostFn_t = void (*)(void*);
enum cudaMemcpyKind {
  cudaMemcpyHostToHost,
  cudaMemcpyHostToDevice,
  cudaMemcpyDeviceToHost,
  cudaMemcpyDeviceToDevice,
  cudaMemcpyDefault
};
enum cudaMemoryType {
  cudaMemoryTypeUnregistered,
  cudaMemoryTypeHost,
  cudaMemoryTypeDevice
};
struct cudaPointerAttributes {
  cudaMemoryType type;
  int device;
  void *devicePointer, *hostPointer;
};

namespace nogpu {

struct Block {  // of memory
  size_t size;
  cudaMemoryType type;
  bool symbol;  // a __device__ variable: not to be freed
};

struct Device {
  std::recursive_mutex m;
  std::map<uintptr_t, Block> memory;
  size_t used = 0;
  uint64_t number = 0;
  CUstream_st standard;  // the legacy default stream
  std::set<CUstream_st*> streams;
  std::map<CUevent_st*, std::shared_ptr<CUevent_st>> events;
  std::map<const void*, size_t> sharedLimits;
  cudaError last = cudaSuccess, sticky = cudaSuccess;
  Pool pool;

  // -- memory
  static size_t total() {
    return static_cast<size_t>(sysconf(_SC_PHYS_PAGES)) *
           static_cast<size_t>(sysconf(_SC_PAGESIZE));
  }
  // The block of memory that [p, p + bytes) starts in, or null.
  std::pair<const uintptr_t, Block>* find(const void* p) {
    const auto a = reinterpret_cast<uintptr_t>(p);
    auto it = memory.upper_bound(a);
    if (it == memory.begin()) return nullptr;
    --it;
    return a <= it->first + it->second.size ? &*it : nullptr;
  }
  bool isDevice(const void* p) {
    auto* b = find(p);
    return b && b->second.type == cudaMemoryTypeDevice;
  }
  bool fits(const void* p, size_t bytes) {
    auto* b = find(p);
    return !b ||
           reinterpret_cast<uintptr_t>(p) + bytes <= b->first + b->second.size;
  }
  // Without a sanitizer an allocation ends at a page that may not be touched.
  static size_t page() { return static_cast<size_t>(sysconf(_SC_PAGESIZE)); }
  static size_t mapped(size_t bytes) {
    return (bytes + page() - 1) / page() * page() + page();
  }
  cudaError allocate(void** p, size_t bytes, cudaMemoryType type) {
    if (!p) return cudaErrorInvalidValue;
    *p = nullptr;
    if (bytes == 0) return cudaSuccess;
    if (bytes > total() - std::min(used, total()))
      return cudaErrorMemoryAllocation;
    const size_t rounded = (bytes + 255) / 256 * 256;
#if NOGPU_ASAN
    if (posix_memalign(p, 256, bytes)) return cudaErrorMemoryAllocation;
    (void)rounded;
#else
    const size_t size = mapped(rounded);
    void* m = mmap(nullptr, size, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANON, -1, 0);
    if (m == MAP_FAILED) return cudaErrorMemoryAllocation;
    char* end = static_cast<char*>(m) + size - page();
    mprotect(end, page(), PROT_NONE);
    *p = end - rounded;
#endif
    if (type == cudaMemoryTypeDevice) memset(*p, 0xFF, bytes), used += bytes;
    memory[reinterpret_cast<uintptr_t>(*p)] = {bytes, type, false};
    return cudaSuccess;
  }
  cudaError release(void* p, cudaMemoryType type) {
    if (!p) return cudaSuccess;
    auto it = memory.find(reinterpret_cast<uintptr_t>(p));
    if (it == memory.end() || it->second.type != type || it->second.symbol)
      return cudaErrorInvalidValue;
    drain();
    if (type == cudaMemoryTypeDevice) used -= it->second.size;
#if NOGPU_ASAN
    free(p);
#else
    const size_t rounded = (it->second.size + 255) / 256 * 256;
    const size_t size = mapped(rounded);
    munmap(static_cast<char*>(p) + rounded + page() - size, size);
#endif
    memory.erase(it);
    return cudaSuccess;
  }

  // -- streams
  CUstream_st* stream(CUstream_st* s) {  // null: no such stream
    if (!s) return &standard;
    return streams.count(s) ? s : nullptr;
  }
  void add(CUstream_st* s, std::function<void()> f) {
    s->queue.push_back({++number, std::move(f)});
  }
  // Runs the oldest work of s, after what has to come before it.
  void step(CUstream_st* s) {
    const uint64_t n = s->queue.front().number;
    auto before = [&](CUstream_st* t) {
      while (!t->queue.empty() && t->queue.front().number < n) step(t);
    };
    if (s == &standard) {
      for (CUstream_st* t : streams)
        if (t->blocking) before(t);
    } else if (s->blocking) {
      before(&standard);
    }
    auto run = std::move(s->queue.front().run);
    s->queue.pop_front();
    if (!sticky) run();
  }
  void drain(CUstream_st* s) {
    while (!s->queue.empty()) step(s);
    if (s == &standard)
      for (CUstream_st* t : streams)
        if (t->blocking) drain(t);
  }
  // All streams, the one whose next work is youngest first: streams that need
  // an order get it from events only.
  void drain() {
    for (;;) {
      CUstream_st* best = standard.queue.empty() ? nullptr : &standard;
      for (CUstream_st* t : streams)
        if (!t->queue.empty() &&
            (!best || t->queue.front().number > best->queue.front().number))
          best = t;
      if (!best) return;
      step(best);
    }
  }
  bool isIdle(CUstream_st* s) {
    if (!s->queue.empty()) return false;
    if (s != &standard) return !s->blocking || standard.queue.empty();
    return std::all_of(streams.begin(), streams.end(), [](CUstream_st* t) {
      return !t->blocking || t->queue.empty();
    });
  }
  void until(CUevent_st* e, uint64_t number) {
    while (e->done < number && stream(e->stream) && !e->stream->queue.empty())
      step(e->stream);
  }
};

inline Device& device() {
  static Device& only = *new Device;
  return only;
}

// Every call of the API: one at a time, refused after a sticky error, and its
// error is kept for cudaGetLastError.
template <class F>
cudaError api(F call) {
  Device& d = device();
  std::lock_guard<std::recursive_mutex> lock(d.m);
  cudaError e = d.sticky;
  if (!e) e = call(d);
  if (!e || e == cudaErrorNotReady) e = d.sticky ? d.sticky : e;
  if (e && e != cudaErrorNotReady) d.last = e;
  return e;
}

// Copies rows of `width` bytes; the pitches are those of dst and src.
inline cudaError copy(void* dst, size_t dstPitch, const void* src,
                      size_t srcPitch, size_t width, size_t rows,
                      cudaMemcpyKind kind, cudaStream_t stream, bool wait) {
  return api([&](Device& d) {
    CUstream_st* s = d.stream(stream);
    if (!s) return cudaErrorInvalidResourceHandle;
    if (kind < cudaMemcpyHostToHost || kind > cudaMemcpyDefault)
      return cudaErrorInvalidMemcpyDirection;
    if (width == 0 || rows == 0) return cudaSuccess;
    if (rows > 1 && (dstPitch < width || srcPitch < width))
      return cudaErrorInvalidPitchValue;
    if (!dst || !src) return cudaErrorInvalidValue;
    const bool to = d.isDevice(dst), from = d.isDevice(src);
    const bool toWanted =
        kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
    const bool fromWanted =
        kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
    if (kind != cudaMemcpyDefault && (to != toWanted || from != fromWanted))
      return cudaErrorInvalidValue;
    if (!d.fits(dst, (rows - 1) * dstPitch + width) ||
        !d.fits(src, (rows - 1) * srcPitch + width))
      return cudaErrorInvalidValue;
    std::shared_ptr<std::vector<char>> staged;
    if (!from && !d.find(src)) {  // pageable memory is read at once
      staged = std::make_shared<std::vector<char>>(width * rows);
      for (size_t r = 0; r < rows; ++r)
        memcpy(staged->data() + r * width,
               static_cast<const char*>(src) + r * srcPitch, width);
      src = staged->data();
      srcPitch = width;
    }
    if (!to && !d.find(dst)) wait = true;
    if (to && from) wait = false;
    d.add(s, [=] {
      (void)staged;
      for (size_t r = 0; r < rows; ++r)
        memmove(static_cast<char*>(dst) + r * dstPitch,
                static_cast<const char*>(src) + r * srcPitch, width);
    });
    if (wait) d.drain(s);
    return cudaSuccess;
  });
}

// ---- Launches ---------------------------------------------------------------
struct Parameter {  // a pointer among a kernel's parameters
  unsigned place;   // from 1
  const void* address;
  bool constant;
};
template <class T>
void note(std::vector<Parameter>&, unsigned, const T&) {}
template <class T>
void note(std::vector<Parameter>& list, unsigned place, T* p) {
  if (p && !std::is_function<T>::value)
    list.push_back(
        {place, reinterpret_cast<const void*>(p), std::is_const<T>::value});
}

struct Brackets {  // what stands before the arguments of a launch
  const char* name;
  const void* function;
  Site site;
  dim3 grid, block;
  size_t shared;
  cudaStream_t stream;

  cudaError check(Device& d, const std::vector<Parameter>& pointers) const {
    if (self && self->launch) {
      self->fail(self->whereThread() + ": launches " + name + " at " +
                 format(site) + ": launches from kernels are not supported");
      self->abandonThread();
    }
    const uint64_t threads = uint64_t{block.x} * block.y * block.z;
    if (!threads || threads > kMaxThreads || block.z > 64 || !grid.x ||
        !grid.y || !grid.z || grid.x > INT_MAX || grid.y > 65535 ||
        grid.z > 65535)
      return cudaErrorInvalidConfiguration;
    if (shared > limit(d)) return cudaErrorInvalidValue;
    if (!d.stream(stream)) return cudaErrorInvalidResourceHandle;
    for (const Parameter& p : pointers) {
      if (!d.find(p.address)) {
        complain(
            format("parameter %u points to host or freed memory", p.place));
        return d.sticky = cudaErrorIllegalAddress;
      }
      for (const Parameter& q : pointers) {
        if (p.address == q.address && p.constant && !q.constant) {
          complain(
              format("in and out are the same buffer (parameters %u and "
                     "%u)",
                     p.place, q.place));
          return d.sticky = cudaErrorLaunchFailure;
        }
      }
    }
    return cudaSuccess;
  }
  size_t limit(Device& d) const {  // of dynamic shared memory
    size_t most = kStaticShared;
    for (auto& entry : d.sharedLimits)
      if (!function || entry.first == function)
        most = std::max(most, entry.second);
    return most;
  }
  void complain(const std::string& text) const {
    fflush(stdout);
    fprintf(stderr, "no-gpu: kernel %s at %s: %s\n", name, format(site).c_str(),
            text.c_str());
  }
};

// Arguments are converted and copied now; the kernel runs when its stream does.
template <class F, class... A>
void submit(const Brackets& b, F kernel, A... arguments) {
  api([&](Device& d) {
    std::vector<Parameter> pointers;
    unsigned place = 0;
    (note(pointers, ++place, arguments), ...);
    const cudaError e = b.check(d, pointers);
    if (e) return e;
    using Bound = std::pair<F, std::tuple<A...>>;
    const size_t limit = b.limit(d);
    d.add(d.stream(b.stream),
          [&d, b, limit, bound = Bound(kernel, {arguments...})] {
            Launch l(b.name, b.site, b.grid, b.block, b.shared,
                     limit > kStaticShared ? kOptInShared : kStaticShared);
            l.arguments = &bound;
            l.thread = [](const void* p) {
              const Bound& call = *static_cast<const Bound*>(p);
              std::apply(call.first, call.second);
            };
            d.pool.run(l);
            const auto failed = static_cast<cudaError>(l.failed.load());
            if (failed == cudaErrorInvalidValue)
              d.last = failed;
            else if (failed)
              d.sticky = d.last = failed;
          });
    return cudaSuccess;
  });
}
template <class... P>
struct PlainCall {  // parameter types known
  Brackets at;
  void (*kernel)(P...);
  void operator()(P... arguments) const { submit(at, kernel, arguments...); }
};
template <class F>
struct DeducedCall {
  Brackets at;
  F kernel;
  template <class... A>
  void operator()(A... arguments) const {
    submit(at, kernel, arguments...);
  }
};
template <class Call, class F>
struct Kernel {
  const char* name;
  const void* function;
  F kernel;
  Call on(dim3 grid, dim3 block, size_t shared = 0,
          cudaStream_t stream = nullptr, NOGPU_SITE) const {
    return {{name, function, site, grid, block, shared, stream}, kernel};
  }
};
template <class... P>
Kernel<PlainCall<P...>, void (*)(P...)> kernel(const char* name,
                                               void (*f)(P...)) {
  return {name, reinterpret_cast<const void*>(f), f};
}
template <class F>
Kernel<DeducedCall<F>, F> deduced(const char* name, F f) {
  return {name, nullptr, f};
}
// What translate.pl makes of name<<<...>>>(...):
// NOGPU_KERNEL(name).on(...)(...)
#define NOGPU_KERNEL(...) ::nogpu::kernel(#__VA_ARGS__, __VA_ARGS__)
#define NOGPU_DEDUCED(...)                                     \
  ::nogpu::deduced(#__VA_ARGS__, [](auto... nogpu_arguments) { \
    __VA_ARGS__(nogpu_arguments...);                           \
  })

// What translate.pl makes of __shared__ T name[N]: a reference to the block's
// copy. Each declaration has a lambda, so a type, so a number of its own.
inline std::atomic<unsigned> sharedNames{0};
template <class Tag>
inline const unsigned sharedNumber = sharedNames++;
template <class T, class Tag>
T& shared(const char* name, Tag, NOGPU_SITE) {
  static_assert(sizeof(T) <= kStaticShared,
                "static shared memory is limited to 48 KiB a block");
  const unsigned number = sharedNumber<Tag>;
  Worker& w = *self;
  if (number >= kMaxSharedNames || !w.shared[number]) {
    w.staticUsed += sizeof(T);
    if (number >= kMaxSharedNames || w.staticUsed > kStaticShared ||
        w.staticUsed + w.launch->dynamicShared > w.launch->sharedLimit) {
      w.fail(w.where() +
                 format(": %s brings shared memory to %zu static + %zu dynamic "
                        "bytes, over the limit of %zu, at ",
                        name, w.staticUsed, w.launch->dynamicShared,
                        w.launch->sharedLimit) +
                 format(site),
             cudaErrorInvalidValue);
      w.abandonThread();
    }
    w.shared[number] = w.take(sizeof(T));
  }
  return *reinterpret_cast<T*>(w.shared[number]);
}
template <class T>
T* dynamic() {
  return reinterpret_cast<T*>(self->arena);
}

}  // namespace nogpu

// ---- The API ----------------------------------------------------------------
// NOGPU_API(name(parameters)) { body }: d is the device.
#define NOGPU_API(signature, ...)                            \
  inline cudaError_t signature {                             \
    return nogpu::api([&](nogpu::Device& d) -> cudaError_t { \
      (void)d;                                               \
      __VA_ARGS__                                            \
    });                                                      \
  }
inline cudaError_t cudaPeekAtLastError() {
  nogpu::Device& d = nogpu::device();
  return d.sticky ? d.sticky : d.last;
}
inline cudaError_t cudaGetLastError() {
  const cudaError_t e = cudaPeekAtLastError();
  nogpu::device().last = cudaSuccess;
  return e;
}
template <class T>
cudaError_t cudaMalloc(T** p, size_t bytes) {
  return nogpu::api([&](nogpu::Device& d) {
    return d.allocate((void**)p, bytes, cudaMemoryTypeDevice);
  });
}
template <class T>
cudaError_t cudaMallocHost(T** p, size_t bytes, unsigned = 0) {
  return nogpu::api([&](nogpu::Device& d) {
    return d.allocate((void**)p, bytes, cudaMemoryTypeHost);
  });
}
constexpr unsigned cudaHostAllocDefault = 0, cudaHostAllocPortable = 1,
                   cudaHostAllocMapped = 2, cudaHostAllocWriteCombined = 4,
                   cudaHostRegisterDefault = 0, cudaStreamDefault = 0,
                   cudaStreamNonBlocking = 1, cudaEventDefault = 0,
                   cudaEventBlockingSync = 1, cudaEventDisableTiming = 2;
template <class T>
cudaError_t cudaHostAlloc(T** p, size_t bytes, unsigned flags) {
  return cudaMallocHost(p, bytes, flags);
}
template <class T>
cudaError_t cudaMallocAsync(T** p, size_t bytes, cudaStream_t) {
  return cudaMalloc(p, bytes);
}
NOGPU_API(cudaFree(void* p), return d.release(p, cudaMemoryTypeDevice);)
NOGPU_API(cudaFreeAsync(void* p, cudaStream_t),
          return d.release(p, cudaMemoryTypeDevice);)
NOGPU_API(cudaFreeHost(void* p), return d.release(p, cudaMemoryTypeHost);)
NOGPU_API(cudaHostRegister(void* p, size_t bytes, unsigned), {
  if (!p || !bytes) return cudaErrorInvalidValue;
  if (d.find(p)) return cudaErrorHostMemoryAlreadyRegistered;
  d.memory[reinterpret_cast<uintptr_t>(p)] = {bytes, cudaMemoryTypeHost, true};
  return cudaSuccess;
})
NOGPU_API(cudaHostUnregister(void* p), {
  auto it = d.memory.find(reinterpret_cast<uintptr_t>(p));
  if (it == d.memory.end() || it->second.type != cudaMemoryTypeHost)
    return cudaErrorHostMemoryNotRegistered;
  d.drain();
  d.memory.erase(it);
  return cudaSuccess;
})
NOGPU_API(cudaMemGetInfo(size_t* free, size_t* total), {
  *total = d.total();
  *free = *total - std::min(*total, d.used);
  return cudaSuccess;
})
NOGPU_API(cudaPointerGetAttributes(cudaPointerAttributes* a, const void* p), {
  auto* b = d.find(p);
  void* q = const_cast<void*>(p);
  const auto type = b ? b->second.type : cudaMemoryTypeUnregistered;
  *a = {type, 0, b ? q : nullptr, type == cudaMemoryTypeDevice ? nullptr : q};
  return cudaSuccess;
})
inline cudaError_t cudaMemcpy(void* dst, const void* src, size_t bytes,
                              cudaMemcpyKind kind) {
  return nogpu::copy(dst, bytes, src, bytes, bytes, 1, kind, nullptr, true);
}
inline cudaError_t cudaMemcpyAsync(void* dst, const void* src, size_t bytes,
                                   cudaMemcpyKind kind,
                                   cudaStream_t s = nullptr) {
  return nogpu::copy(dst, bytes, src, bytes, bytes, 1, kind, s, false);
}
inline cudaError_t cudaMemcpy2D(void* dst, size_t dstPitch, const void* src,
                                size_t srcPitch, size_t width, size_t rows,
                                cudaMemcpyKind kind) {
  return nogpu::copy(dst, dstPitch, src, srcPitch, width, rows, kind, nullptr,
                     true);
}
inline cudaError_t cudaMemcpy2DAsync(void* dst, size_t dstPitch,
                                     const void* src, size_t srcPitch,
                                     size_t width, size_t rows,
                                     cudaMemcpyKind kind,
                                     cudaStream_t s = nullptr) {
  return nogpu::copy(dst, dstPitch, src, srcPitch, width, rows, kind, s, false);
}
NOGPU_API(cudaMemsetAsync(void* p, int value, size_t bytes,
                          cudaStream_t stream = nullptr),
          {
            CUstream_st* s = d.stream(stream);
            if (!s) return cudaErrorInvalidResourceHandle;
            if (bytes == 0) return cudaSuccess;
            if (!d.find(p) || !d.fits(p, bytes)) return cudaErrorInvalidValue;
            d.add(s, [=] { memset(p, value, bytes); });
            return cudaSuccess;
          })
inline cudaError_t cudaMemset(void* p, int value, size_t bytes) {
  return cudaMemsetAsync(p, value, bytes);
}
template <class T>
cudaError_t cudaGetSymbolAddress(void** p, const T& symbol) {
  return nogpu::api([&](nogpu::Device& d) {
    *p = const_cast<void*>(static_cast<const void*>(&symbol));
    d.memory[reinterpret_cast<uintptr_t>(*p)] = {sizeof(T),
                                                 cudaMemoryTypeDevice, true};
    return cudaSuccess;
  });
}
template <class T>
cudaError_t cudaMemcpyToSymbolAsync(const T& symbol, const void* src,
                                    size_t bytes, size_t offset = 0,
                                    cudaMemcpyKind = cudaMemcpyHostToDevice,
                                    cudaStream_t s = nullptr) {
  void* p;
  cudaError_t e = cudaGetSymbolAddress(&p, symbol);
  if (e) return e;
  return cudaMemcpyAsync(static_cast<char*>(p) + offset, src, bytes,
                         cudaMemcpyDefault, s);
}
template <class T>
cudaError_t cudaMemcpyToSymbol(const T& symbol, const void* src, size_t bytes,
                               size_t offset = 0,
                               cudaMemcpyKind = cudaMemcpyHostToDevice) {
  void* p;
  cudaError_t e = cudaGetSymbolAddress(&p, symbol);
  if (e) return e;
  return cudaMemcpy(static_cast<char*>(p) + offset, src, bytes,
                    cudaMemcpyDefault);
}
template <class T>
cudaError_t cudaMemcpyFromSymbol(void* dst, const T& symbol, size_t bytes,
                                 size_t offset = 0,
                                 cudaMemcpyKind = cudaMemcpyDeviceToHost) {
  void* p;
  cudaError_t e = cudaGetSymbolAddress(&p, symbol);
  if (e) return e;
  return cudaMemcpy(dst, static_cast<char*>(p) + offset, bytes,
                    cudaMemcpyDefault);
}
NOGPU_API(cudaDeviceSynchronize(), d.drain(); return cudaSuccess;)
NOGPU_API(cudaStreamCreateWithFlags(cudaStream_t* s, unsigned flags), {
  *s = new CUstream_st;
  (*s)->blocking = !(flags & cudaStreamNonBlocking);
  d.streams.insert(*s);
  return cudaSuccess;
})
inline cudaError_t cudaStreamCreate(cudaStream_t* s) {
  return cudaStreamCreateWithFlags(s, cudaStreamDefault);
}
NOGPU_API(cudaStreamDestroy(cudaStream_t s), {
  if (!s || !d.stream(s)) return cudaErrorInvalidResourceHandle;
  d.drain(s);
  d.streams.erase(s);
  delete s;
  return cudaSuccess;
})
NOGPU_API(cudaStreamSynchronize(cudaStream_t stream), {
  CUstream_st* s = d.stream(stream);
  if (!s) return cudaErrorInvalidResourceHandle;
  d.drain(s);
  return cudaSuccess;
})
NOGPU_API(cudaStreamQuery(cudaStream_t stream), {
  CUstream_st* s = d.stream(stream);
  if (!s) return cudaErrorInvalidResourceHandle;
  if (s->queue.empty()) return cudaSuccess;
  d.step(s);
  return cudaErrorNotReady;
})
NOGPU_API(cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t f, void* p), {
  CUstream_st* s = d.stream(stream);
  if (!s) return cudaErrorInvalidResourceHandle;
  d.add(s, [=] { f(p); });
  return cudaSuccess;
})
NOGPU_API(cudaEventCreateWithFlags(cudaEvent_t* e, unsigned flags), {
  auto event = std::make_shared<CUevent_st>();
  event->timing = !(flags & cudaEventDisableTiming);
  *e = event.get();
  d.events[*e] = event;
  return cudaSuccess;
})
inline cudaError_t cudaEventCreate(cudaEvent_t* e) {
  return cudaEventCreateWithFlags(e, cudaEventDefault);
}
NOGPU_API(cudaEventDestroy(cudaEvent_t e), {
  return d.events.erase(e) ? cudaSuccess : cudaErrorInvalidResourceHandle;
})
// On an idle stream an event has happened as soon as it is recorded.
NOGPU_API(cudaEventRecord(cudaEvent_t e, cudaStream_t stream = nullptr), {
  CUstream_st* s = d.stream(stream);
  if (!s || !d.events.count(e)) return cudaErrorInvalidResourceHandle;
  auto event = d.events[e];
  const uint64_t number = event->asked = d.number + 1;
  event->stream = s;
  const bool idle = d.isIdle(s);
  d.add(s, [=] {
    event->done = std::max(event->done, number);
    event->time = std::chrono::steady_clock::now();
  });
  if (idle) d.step(s);
  return cudaSuccess;
})
NOGPU_API(cudaEventSynchronize(cudaEvent_t e), {
  if (!d.events.count(e)) return cudaErrorInvalidResourceHandle;
  d.until(e, e->asked);
  return cudaSuccess;
})
NOGPU_API(cudaEventQuery(cudaEvent_t e), {
  if (!d.events.count(e)) return cudaErrorInvalidResourceHandle;
  if (e->done == e->asked) return cudaSuccess;
  if (!e->stream->queue.empty()) d.step(e->stream);
  return cudaErrorNotReady;
})
NOGPU_API(cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t e, unsigned = 0),
          {
            CUstream_st* s = d.stream(stream);
            if (!s || !d.events.count(e)) return cudaErrorInvalidResourceHandle;
            auto event = d.events[e];
            const uint64_t number = event->asked;
            d.add(s, [=, &d] { d.until(event.get(), number); });
            return cudaSuccess;
          })
inline cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t a,
                                        cudaEvent_t b) {
  const cudaError_t e = nogpu::api([&](nogpu::Device& d) {
    if (!d.events.count(a) || !d.events.count(b) || !a->asked || !b->asked ||
        !a->timing || !b->timing)
      return cudaErrorInvalidResourceHandle;
    if (a->done < a->asked || b->done < b->asked) return cudaErrorNotReady;
    *ms = std::chrono::duration<float, std::milli>(b->time - a->time).count();
    return cudaSuccess;
  });
  // Not kept for cudaGetLastError: the program is meant to go on without.
  return e || *nogpu::env("NOGPU_TIMING", "0") != '0' ? e
                                                      : cudaErrorNotSupported;
}

// ---- The device -------------------------------------------------------------
struct cudaDeviceProp {
  char name[256];
  size_t totalGlobalMem, sharedMemPerBlock, sharedMemPerBlockOptin,
      sharedMemPerMultiprocessor, totalConstMem, memPitch, textureAlignment;
  int regsPerBlock, regsPerMultiprocessor, warpSize, maxThreadsPerBlock,
      maxThreadsDim[3], maxGridSize[3], major, minor, multiProcessorCount,
      maxThreadsPerMultiProcessor, maxBlocksPerMultiProcessor, integrated,
      canMapHostMemory, concurrentKernels, asyncEngineCount, unifiedAddressing,
      managedMemory, ECCEnabled, memoryBusWidth, l2CacheSize,
      persistingL2CacheMaxSize, cooperativeLaunch, pciBusID, pciDeviceID,
      pciDomainID;
};
#define NOGPU_ATTRIBUTES(A)                                                    \
  A(cudaDevAttrMaxThreadsPerBlock, 1, 1024)                                    \
  A(cudaDevAttrMaxBlockDimX, 2, 1024)                                          \
  A(cudaDevAttrMaxBlockDimY, 3, 1024)                                          \
  A(cudaDevAttrMaxBlockDimZ, 4, 64)                                            \
  A(cudaDevAttrMaxGridDimX, 5, INT_MAX)                                        \
  A(cudaDevAttrMaxGridDimY, 6, 65535)                                          \
  A(cudaDevAttrMaxGridDimZ, 7, 65535)                                          \
  A(cudaDevAttrMaxSharedMemoryPerBlock, 8, int(nogpu::kStaticShared))          \
  A(cudaDevAttrTotalConstantMemory, 9, 65536)                                  \
  A(cudaDevAttrWarpSize, 10, 32)                                               \
  A(cudaDevAttrMaxRegistersPerBlock, 12, 65536)                                \
  A(cudaDevAttrClockRate, 13, 0)                                               \
  A(cudaDevAttrMultiProcessorCount, 16, nogpu::processors())                   \
  A(cudaDevAttrIntegrated, 18, 0)                                              \
  A(cudaDevAttrCanMapHostMemory, 19, 1)                                        \
  A(cudaDevAttrComputeMode, 20, 0)                                             \
  A(cudaDevAttrConcurrentKernels, 31, 1)                                       \
  A(cudaDevAttrEccEnabled, 32, 0)                                              \
  A(cudaDevAttrMemoryClockRate, 36, 0)                                         \
  A(cudaDevAttrGlobalMemoryBusWidth, 37, 0)                                    \
  A(cudaDevAttrL2CacheSize, 38, 0)                                             \
  A(cudaDevAttrMaxThreadsPerMultiProcessor, 39, 1024)                          \
  A(cudaDevAttrAsyncEngineCount, 40, 1)                                        \
  A(cudaDevAttrUnifiedAddressing, 41, 1)                                       \
  A(cudaDevAttrComputeCapabilityMajor, 75, NOGPU_SM / 10)                      \
  A(cudaDevAttrComputeCapabilityMinor, 76, NOGPU_SM % 10)                      \
  A(cudaDevAttrMaxSharedMemoryPerMultiprocessor, 81, int(nogpu::kOptInShared)) \
  A(cudaDevAttrMaxRegistersPerMultiprocessor, 82, 65536)                       \
  A(cudaDevAttrManagedMemory, 83, 0)                                           \
  A(cudaDevAttrCooperativeLaunch, 95, 0)                                       \
  A(cudaDevAttrMaxSharedMemoryPerBlockOptin, 97, int(nogpu::kOptInShared))     \
  A(cudaDevAttrMaxBlocksPerMultiprocessor, 106, 16)
enum cudaDeviceAttr {
#define NOGPU_A(name, number, value) name = number,
  NOGPU_ATTRIBUTES(NOGPU_A)
#undef NOGPU_A
};
enum cudaFuncAttribute {
  cudaFuncAttributeMaxDynamicSharedMemorySize = 8,
  cudaFuncAttributePreferredSharedMemoryCarveout = 9
};
struct cudaFuncAttributes {
  size_t sharedSizeBytes, constSizeBytes, localSizeBytes;
  int maxThreadsPerBlock, numRegs, ptxVersion, binaryVersion, cacheModeCA,
      maxDynamicSharedSizeBytes, preferredShmemCarveout;
};
namespace nogpu {
inline int processors() {
  return static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
}
inline cudaError attribute(int* v, int wanted) {
#define NOGPU_A(name, number, value) \
  if (wanted == name) return *v = value, cudaSuccess;
  NOGPU_ATTRIBUTES(NOGPU_A)
#undef NOGPU_A
  return cudaErrorInvalidValue;
}
}  // namespace nogpu
NOGPU_API(cudaGetDeviceCount(int* n), *n = 1; return cudaSuccess;)
NOGPU_API(cudaGetDevice(int* n), *n = 0; return cudaSuccess;)
NOGPU_API(cudaSetDevice(int n),
          return n == 0 ? cudaSuccess : cudaErrorInvalidDevice;)
NOGPU_API(cudaDeviceReset(), d.drain(); return cudaSuccess;)
NOGPU_API(cudaDriverGetVersion(int* v), *v = 0; return cudaSuccess;)
NOGPU_API(cudaRuntimeGetVersion(int* v), *v = 0; return cudaSuccess;)
NOGPU_API(cudaDeviceGetAttribute(int* v, cudaDeviceAttr attribute, int n), {
  if (n != 0) return cudaErrorInvalidDevice;
  return nogpu::attribute(v, attribute);
})
NOGPU_API(cudaGetDeviceProperties(cudaDeviceProp* p, int n), {
  if (n != 0) return cudaErrorInvalidDevice;
  *p = cudaDeviceProp{};
  snprintf(p->name, sizeof p->name, "CPU emulation, %s",
           *nogpu::env("NOGPU_TIMING", "0") != '0'
               ? "times mean nothing for a GPU"
               : "no GPU timings");
  p->totalGlobalMem = d.total();
  p->sharedMemPerBlock = nogpu::kStaticShared;
  p->sharedMemPerBlockOptin = nogpu::kOptInShared;
  p->sharedMemPerMultiprocessor = nogpu::kOptInShared;
  p->totalConstMem = 65536;
  p->memPitch = INT_MAX;
  p->textureAlignment = 512;
  p->regsPerBlock = p->regsPerMultiprocessor = 65536;
  p->warpSize = 32;
  p->maxThreadsPerBlock = p->maxThreadsDim[0] = p->maxThreadsDim[1] = 1024;
  p->maxThreadsDim[2] = 64;
  p->maxGridSize[0] = INT_MAX;
  p->maxGridSize[1] = p->maxGridSize[2] = 65535;
  p->major = NOGPU_SM / 10;
  p->minor = NOGPU_SM % 10;
  p->multiProcessorCount = nogpu::processors();
  p->maxThreadsPerMultiProcessor = 1024;
  p->maxBlocksPerMultiProcessor = 16;
  p->canMapHostMemory = p->concurrentKernels = p->asyncEngineCount =
      p->unifiedAddressing = 1;
  return cudaSuccess;
})
template <class F>
cudaError_t cudaFuncSetAttribute(F* f, cudaFuncAttribute a, int value) {
  return nogpu::api([&](nogpu::Device& d) {
    if (a == cudaFuncAttributePreferredSharedMemoryCarveout) return cudaSuccess;
    if (value < 0 || static_cast<size_t>(value) > nogpu::kOptInShared)
      return cudaErrorInvalidValue;
    d.sharedLimits[reinterpret_cast<const void*>(f)] =
        static_cast<size_t>(value);
    return cudaSuccess;
  });
}
template <class F>
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* a, F* f) {
  return nogpu::api([&](nogpu::Device& d) {
    *a = cudaFuncAttributes{};
    a->maxThreadsPerBlock = 1024;
    a->ptxVersion = a->binaryVersion = NOGPU_SM;
    auto it = d.sharedLimits.find(reinterpret_cast<const void*>(f));
    a->maxDynamicSharedSizeBytes = static_cast<int>(
        it == d.sharedLimits.end() ? nogpu::kStaticShared : it->second);
    return cudaSuccess;
  });
}
template <class F>
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, F*,
                                                          int threads,
                                                          size_t shared) {
  return nogpu::api([&](nogpu::Device&) {
    if (threads < 1) return cudaErrorInvalidValue;
    *blocks = threads > 1024 ? 0 : std::min(16, 1024 / threads);
    if (shared) *blocks = std::min<int>(*blocks, nogpu::kOptInShared / shared);
    return cudaSuccess;
  });
}

// ---- Device functions -------------------------------------------------------
#define NOGPU_DEF(signature, ...) \
  inline signature {              \
    return __VA_ARGS__;           \
  }
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
  return nogpu::self->barrier(p != 0, site) == nogpu::self->count;
}
inline void __syncwarp(unsigned mask = ~0u, NOGPU_SITE) {
  nogpu::self->meet("__syncwarp", mask, 0, nogpu::kVote, site);
}
inline unsigned __ballot_sync(unsigned mask, int p, NOGPU_SITE) {
  return static_cast<unsigned>(
      nogpu::self->meet("__ballot_sync", mask, p != 0, nogpu::kVote, site));
}
inline int __any_sync(unsigned mask, int p, NOGPU_SITE) {
  return nogpu::self->meet("__any_sync", mask, p != 0, nogpu::kVote, site) != 0;
}
inline int __all_sync(unsigned mask, int p, NOGPU_SITE) {
  return nogpu::self->meet("__all_sync", mask, p == 0, nogpu::kVote, site) == 0;
}
namespace nogpu {
template <class T>
uint64_t bits(T v) {
  static_assert(sizeof(T) <= 8 && std::is_arithmetic<T>::value,
                "a warp passes numbers of at most 8 bytes");
  uint64_t b = 0;
  memcpy(&b, &v, sizeof v);
  return b;
}
template <class T>
T shuffle(const char* what, unsigned mask, T v, int lane, int source, int width,
          Site site) {
  const int first = lane & ~(width - 1);
  if (source < first || source >= first + width) source = lane;
  const uint64_t b = self->meet(what, mask, bits(v), source, site);
  memcpy(&v, &b, sizeof v);
  return v;
}
inline int lane() {
  return static_cast<int>(self->linear(threadIdx) % 32);
}
}  // namespace nogpu
template <class T>
T __shfl_sync(unsigned mask, T v, int source, int width = 32, NOGPU_SITE) {
  const int lane = nogpu::lane();
  return nogpu::shuffle("__shfl_sync", mask, v, lane,
                        (lane & ~(width - 1)) | (source & (width - 1)), width,
                        site);
}
template <class T>
T __shfl_up_sync(unsigned mask, T v, unsigned by, int width = 32, NOGPU_SITE) {
  const int lane = nogpu::lane();
  return nogpu::shuffle("__shfl_up_sync", mask, v, lane,
                        lane - static_cast<int>(by), width, site);
}
template <class T>
T __shfl_down_sync(unsigned mask, T v, unsigned by, int width = 32,
                   NOGPU_SITE) {
  const int lane = nogpu::lane();
  return nogpu::shuffle("__shfl_down_sync", mask, v, lane,
                        lane + static_cast<int>(by), width, site);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T v, int with, int width = 32, NOGPU_SITE) {
  const int lane = nogpu::lane();
  return nogpu::shuffle("__shfl_xor_sync", mask, v, lane, lane ^ with, width,
                        site);
}
template <class T>
unsigned __match_any_sync(unsigned mask, T v, NOGPU_SITE) {
  return static_cast<unsigned>(nogpu::self->meet(
      "__match_any_sync", mask, nogpu::bits(v), nogpu::kMatch, site));
}
// The lanes that have not returned. It promises no more on a GPU either.
inline unsigned __activemask() {
  return nogpu::self->live(threadIdx);
}
inline void __nanosleep(unsigned) {
  nogpu::self->yield();
}
NOGPU_DEF(void __threadfence(),
          std::atomic_thread_fence(std::memory_order_seq_cst))
NOGPU_DEF(void __threadfence_block(), (void)0)
NOGPU_DEF(void __threadfence_system(), __threadfence())
NOGPU_DEF(long long clock64(),
          std::chrono::steady_clock::now().time_since_epoch().count())
NOGPU_DEF(clock_t clock32(), static_cast<clock_t>(clock64()))

// Atomics: blocks run on several cores, so they are atomic indeed.
#define NOGPU_ATOMIC(name, result)                                          \
  template <class T, class V>                                               \
  T name(T* p, V value) {                                                   \
    const T v = static_cast<T>(value);                                      \
    T old;                                                                  \
    __atomic_load(p, &old, __ATOMIC_RELAXED);                               \
    for (;;) {                                                              \
      T next = result;                                                      \
      if (__atomic_compare_exchange(p, &old, &next, true, __ATOMIC_RELAXED, \
                                    __ATOMIC_RELAXED))                      \
        return old;                                                         \
    }                                                                       \
  }
NOGPU_ATOMIC(atomicAdd, old + v)
NOGPU_ATOMIC(atomicSub, old - v)
NOGPU_ATOMIC(atomicMin, v < old ? v : old)
NOGPU_ATOMIC(atomicMax, v > old ? v : old)
NOGPU_ATOMIC(atomicExch, v)
NOGPU_ATOMIC(atomicAnd, old& v)
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

// Loads and stores with a cache hint.
#define NOGPU_LOAD(name) \
  template <class T>     \
  T name(const T* p) {   \
    return *p;           \
  }
#define NOGPU_STORE(name) \
  template <class T>      \
  void name(T* p, T v) {  \
    *p = v;               \
  }
NOGPU_LOAD(__ldg)
NOGPU_LOAD(__ldca)
NOGPU_LOAD(__ldcs) NOGPU_LOAD(__ldcg) NOGPU_LOAD(__ldcv) NOGPU_LOAD(__ldlu)
    NOGPU_STORE(__stwb) NOGPU_STORE(__stcs) NOGPU_STORE(__stcg) NOGPU_STORE(
        __stwt)

// Arithmetic. Built with -ffp-contract=off, so each operation rounds by itself.
#define NOGPU_MIN_MAX(R, A, B)                                     \
  NOGPU_DEF(R min(A a, B b), static_cast<R>(b) < static_cast<R>(a) \
                                 ? static_cast<R>(b)               \
                                 : static_cast<R>(a))              \
  NOGPU_DEF(R max(A a, B b), static_cast<R>(a) < static_cast<R>(b) \
                                 ? static_cast<R>(b)               \
                                 : static_cast<R>(a))
        NOGPU_MIN_MAX(int, int, int) NOGPU_MIN_MAX(unsigned, unsigned, unsigned)
            NOGPU_MIN_MAX(unsigned, int, unsigned) NOGPU_MIN_MAX(unsigned,
                                                                 unsigned, int)
                NOGPU_MIN_MAX(long, long, long) NOGPU_MIN_MAX(unsigned long,
                                                              unsigned long,
                                                              unsigned long)
                    NOGPU_MIN_MAX(long long, long long,
                                  long long) NOGPU_MIN_MAX(unsigned long long,
                                                           unsigned long long,
                                                           unsigned long long)
#define NOGPU_MIN_MAX_FLOAT(R, A, B)                \
  NOGPU_DEF(R min(A a, B b), std::fmin(R(a), R(b))) \
  NOGPU_DEF(R max(A a, B b), std::fmax(R(a), R(b)))
                        NOGPU_MIN_MAX_FLOAT(float, float, float)
                            NOGPU_MIN_MAX_FLOAT(double, double, double)
                                NOGPU_MIN_MAX_FLOAT(double, float, double)
                                    NOGPU_MIN_MAX_FLOAT(double, double,
                                                        float) using std::abs;
NOGPU_DEF(float __fadd_rn(float a, float b), a + b)
NOGPU_DEF(float __fsub_rn(float a, float b), a - b)
NOGPU_DEF(float __fmul_rn(float a, float b), a* b)
NOGPU_DEF(float __fdiv_rn(float a, float b), a / b)
NOGPU_DEF(float __fdividef(float a, float b), a / b)
NOGPU_DEF(float __frcp_rn(float a), 1.0f / a)
NOGPU_DEF(float __fsqrt_rn(float a), std::sqrt(a))
NOGPU_DEF(float __frsqrt_rn(float a), float(1 / std::sqrt(double(a))))
NOGPU_DEF(float __fmaf_rn(float a, float b, float c), __builtin_fmaf(a, b, c))
NOGPU_DEF(double __dadd_rn(double a, double b), a + b)
NOGPU_DEF(double __dsub_rn(double a, double b), a - b)
NOGPU_DEF(double __dmul_rn(double a, double b), a* b)
NOGPU_DEF(double __fma_rn(double a, double b, double c), __builtin_fma(a, b, c))
NOGPU_DEF(float rsqrtf(float a), 1.0f / std::sqrt(a))
NOGPU_DEF(double rsqrt(double a), 1.0 / std::sqrt(a))
NOGPU_DEF(float __expf(float a), std::exp(a))
NOGPU_DEF(float __logf(float a), std::log(a))
NOGPU_DEF(float __sinf(float a), std::sin(a))
NOGPU_DEF(float __cosf(float a), std::cos(a))
NOGPU_DEF(float __powf(float a, float b), std::pow(a, b))
NOGPU_DEF(float __saturatef(float a), a > 0 ? (a < 1 ? a : 1.0f) : 0.0f)
namespace nogpu {
// Out of range saturates and NaN is 0, as on a GPU.
template <class I>
I convert(double v) {
  if (!(v > double(std::numeric_limits<I>::min())))
    return v == v ? std::numeric_limits<I>::min() : 0;
  return v < double(std::numeric_limits<I>::max())
             ? static_cast<I>(v)
             : std::numeric_limits<I>::max();
}
template <class To, class From>
To recast(From v) {
  To to;
  memcpy(&to, &v, sizeof to);
  return to;
}
}  // namespace nogpu
NOGPU_DEF(int __float2int_rn(float a), nogpu::convert<int>(std::nearbyint(a)))
NOGPU_DEF(int __float2int_rz(float a), nogpu::convert<int>(std::trunc(a)))
NOGPU_DEF(int __float2int_rd(float a), nogpu::convert<int>(std::floor(a)))
NOGPU_DEF(int __float2int_ru(float a), nogpu::convert<int>(std::ceil(a)))
NOGPU_DEF(unsigned __float2uint_rn(float a),
          nogpu::convert<unsigned>(std::nearbyint(a)))
NOGPU_DEF(unsigned __float2uint_rz(float a),
          nogpu::convert<unsigned>(std::trunc(a)))
NOGPU_DEF(float __int2float_rn(int a), static_cast<float>(a))
NOGPU_DEF(float __uint2float_rn(unsigned a), static_cast<float>(a))
NOGPU_DEF(int __float_as_int(float a), nogpu::recast<int>(a))
NOGPU_DEF(unsigned __float_as_uint(float a), nogpu::recast<unsigned>(a))
NOGPU_DEF(float __int_as_float(int a), nogpu::recast<float>(a))
NOGPU_DEF(float __uint_as_float(unsigned a), nogpu::recast<float>(a))
NOGPU_DEF(int __popc(unsigned a), __builtin_popcount(a))
NOGPU_DEF(int __popcll(unsigned long long a), __builtin_popcountll(a))
NOGPU_DEF(int __ffs(int a), __builtin_ffs(a))
NOGPU_DEF(int __clz(int a), a ? __builtin_clz(static_cast<unsigned>(a)) : 32)
NOGPU_DEF(unsigned __umulhi(unsigned a, unsigned b),
          unsigned(uint64_t{a} * b >> 32))
NOGPU_DEF(int __mul24(int a, int b), a* b)
inline unsigned __brev(unsigned a) {
  unsigned r = 0;
  for (int i = 0; i < 32; ++i) r |= (a >> i & 1u) << (31 - i);
  return r;
}
inline unsigned __byte_perm(unsigned a, unsigned b, unsigned selector) {
  const uint64_t both = uint64_t{b} << 32 | a;
  unsigned r = 0;
  for (int i = 0; i < 4; ++i) {
    const unsigned s = selector >> 4 * i & 15u;
    const unsigned byte = unsigned(both >> 8 * (s & 7)) & 255u;
    r |= (s & 8 ? (byte & 128u ? 255u : 0u) : byte) << 8 * i;
  }
  return r;
}

// ---- What is not here -------------------------------------------------------
#define NOGPU_MISSING(name, text)                                             \
  template <class... A>                                                       \
  cudaError_t name(A&&...) {                                                  \
    static_assert(sizeof...(A) > 99,                                          \
                  "no-gpu: " #name ": " text " not supported without a GPU"); \
    return cudaErrorNotSupported;                                             \
  }
NOGPU_MISSING(cudaMallocManaged, "managed memory is")
NOGPU_MISSING(cudaMemPrefetchAsync, "managed memory is")
NOGPU_MISSING(cudaMallocArray, "textures are")
NOGPU_MISSING(cudaCreateTextureObject, "textures are")
NOGPU_MISSING(tex2D, "textures are")
NOGPU_MISSING(cudaStreamBeginCapture, "CUDA graphs are")
NOGPU_MISSING(cudaGraphCreate, "CUDA graphs are")
NOGPU_MISSING(cudaGraphLaunch, "CUDA graphs are")
NOGPU_MISSING(cudaLaunchKernel, "launches other than <<<>>> are")
NOGPU_MISSING(cudaLaunchKernelEx, "launches other than <<<>>> are")
NOGPU_MISSING(cudaLaunchCooperativeKernel, "cooperative launches are")
