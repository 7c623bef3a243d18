// emulator.h - how kernels run on the CPU. Included by cuda_runtime.h.
//
// Each core has a worker, which takes one block after the other. Inside a block
// a fibre, that is a stack of its own but no OS thread, runs thread after
// thread in a plain loop. Only when a thread has to wait, at a barrier or in a
// warp shuffle, is its fibre parked, and another fibre goes on with the next
// thread. When nobody can go on, all that are left wait: at one barrier, and
// they are let go; or in a way that hangs or breaks on a GPU, and the launch
// fails with a message. Read struct Worker first.
//
// Shared memory starts as 0xFF bytes, as device memory does (device.h): a NaN
// that no arithmetic gives. A kernel that reads it reads what nobody has
// written. translate.pl marks the reads, so that the source line is known.
//
// NOGPU_ORDER=forward|reverse|shuffle|shuffle:SEED: order of a block's threads.
// NOGPU_THREADS=N: number of workers.
// SPDX-License-Identifier: MIT
#pragma once
#pragma GCC system_header  // warnings are for the student's code
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define __SANITIZE_ADDRESS__ 1
#endif
#endif
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#define NOGPU_ASAN(...) __VA_ARGS__
#else
#define NOGPU_ASAN(...)
#endif
#ifndef __APPLE__  // whose linker wants it defined; elsewhere it may be null
extern "C" void __sanitizer_set_death_callback(void (*)(void))
    __attribute__((weak));
#endif

// clang-format off
// nogpu_switch(&from, to) saves the registers that a call must keep on the
// running stack, stores the stack pointer in from, and goes on at to.
extern "C" void nogpu_switch(void** from, void* to);
#ifdef __APPLE__
#define LABEL ".text\n.p2align 4\n_nogpu_switch:\n"
#else
#define LABEL ".text\n.p2align 4\nnogpu_switch:\n"
#endif
#if defined(__x86_64__)
asm(LABEL
    "push %rbp\n push %rbx\n push %r12\n push %r13\n push %r14\n push %r15\n"
    "mov %rsp, (%rdi)\n mov %rsi, %rsp\n"
    "pop %r15\n pop %r14\n pop %r13\n pop %r12\n pop %rbx\n pop %rbp\n ret\n");
constexpr int kNogpuFrame = 8, kNogpuEntry = 6;  // words; the return address
#elif defined(__aarch64__)
#define ALL(op)                                                               \
  #op " x19, x20, [sp]\n" #op " x21, x22, [sp, #16]\n"                        \
  #op " x23, x24, [sp, #32]\n" #op " x25, x26, [sp, #48]\n"                   \
  #op " x27, x28, [sp, #64]\n" #op " x29, x30, [sp, #80]\n"                   \
  #op " d8, d9, [sp, #96]\n" #op " d10, d11, [sp, #112]\n"                    \
  #op " d12, d13, [sp, #128]\n" #op " d14, d15, [sp, #144]\n"
asm(LABEL "sub sp, sp, #160\n" ALL(stp) "mov x9, sp\n str x9, [x0]\n"
    "mov sp, x1\n" ALL(ldp) "add sp, sp, #160\n ret\n");
#undef ALL
constexpr int kNogpuFrame = 20, kNogpuEntry = 11;
#else
#error "no-gpu: written for x86-64 and 64-bit Arm"
#endif
#undef LABEL
// clang-format on

// ----------------------------------------------------------- how a block runs
namespace nogpu {

constexpr unsigned kMaxThreads = 1024;  // of a block
constexpr size_t kShared = 48 * 1024;   // bytes a block has,
constexpr size_t kOptInShared =         // and has when it asks for more
    1024 * (NOGPU_SM >= 90   ? 227
            : NOGPU_SM == 75 ? 64
            : NOGPU_SM >= 86 ? 99
            : NOGPU_SM >= 80 ? 163
                             : 96);
inline std::atomic<unsigned> sharedNames{0};  // __shared__ variables there are

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
#define NOGPU_SITE nogpu::Site site = nogpu::here()

inline std::ostream& operator<<(std::ostream& out, const Site& s) {
  return out << s.file << ':' << s.line;
}
inline std::ostream& operator<<(std::ostream& out, uint3 v) {
  return out << '(' << v.x << ", " << v.y << ", " << v.z << ')';
}
template <class... T>
std::string text(const T&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}
inline std::string hex(unsigned mask) {
  return text("0x", std::hex, mask);
}
inline void print(const std::string& line) {
  fflush(stdout);
  fprintf(stderr, "no-gpu: %s\n", line.c_str());
}
inline std::string env(const char* name) {
  return getenv(name) ? getenv(name) : "";
}

struct Order {  // in which the threads of a block start
  std::string word = env("NOGPU_ORDER");
  bool reverse = word == "reverse", shuffle = word.rfind("shuffle", 0) == 0;
  unsigned seed = 0;
  Order() {
    if (shuffle) {
      seed = word.size() > 8 ? atoi(word.c_str() + 8)
                             : std::random_device()() % 1000000;
      print(text("threads are shuffled, NOGPU_ORDER=shuffle:", seed));
    } else if (!reverse && !word.empty() && word != "forward") {
      print("NOGPU_ORDER is forward, reverse, shuffle or shuffle:SEED");
    }
  }
};
inline const Order& order() {
  static const Order chosen;
  return chosen;
}

struct Launch {
  const char* name;      // the kernel, as spelled at the launch
  const void* function;  // null: not known
  Site site;
  dim3 grid, block;
  size_t shared;  // dynamic
  cudaStream_t stream;
  size_t sharedLimit = kShared;
  void (*thread)(const void*) = nullptr;  // runs the kernel for one thread
  const void* arguments = nullptr;
};
inline std::atomic<uint64_t> nextBlock{0};  // of the launch that is running
inline std::atomic<int> failure{0};         // its cudaError

struct Fibre {
  void* sp = nullptr;  // where it goes on
  const void* stack = nullptr;
  size_t size = 0;
  void* fake = nullptr;  // AddressSanitizer's second stack
  uint3 thread{};        // the CUDA thread that it is running
  // While it waits: where, what it brings (in) and what it gets (out); in a
  // warp also with which lanes, and which lane it reads.
  Site site{};
  uint64_t in = 0, out = 0;
  const char* what = "";
  unsigned mask = 0;
  int source = 0;
};
constexpr int kVote = -1, kMatch = -2;  // sources that are no lane

// Reads, at one place in the source, of memory that nobody has written.
struct Unwritten {
  Site site;
  uint64_t count, block;  // of which this was the first, or the first known
  std::string first;      // kernel, block, thread, and what kind of memory
};

struct Worker;
inline thread_local Worker* self = nullptr;

struct Worker {  // runs blocks, one at a time; one OS thread uses it
  const Launch* launch = nullptr;  // null between launches
  unsigned count = 0, next = 0;    // threads of a block; started so far
  std::vector<uint3> inOrder;      // the threads of a block,
  std::vector<uint3> threads;      // and in the order in which they start
  Fibre main;                      // the worker's own stack
  Fibre *current = &main, *previous = nullptr;
  std::vector<std::unique_ptr<Fibre>> fibres;
  std::vector<Fibre*> idle, atBarrier;
  std::deque<Fibre*> ready;                 // let go, to run again
  Fibre* lanes[kMaxThreads] = {};           // threads that wait in a warp
  unsigned waiting[kMaxThreads / 32] = {};  // the same, one bit a lane
  unsigned returned[kMaxThreads / 32] = {};
  char* arena = nullptr;  // the block's shared memory
  size_t arenaSize = 0, arenaUsed = 0, staticShared = 0;
  std::vector<char*> shared;  // where each variable lies, once it is used
  std::vector<Unwritten> unwritten;  // that this launch has read
  uint64_t block = 0;                // the running one's number
  char signalStack[32 * 1024];

  bool inKernel() const { return launch && current != &main; }
  static std::string at(uint3 v, unsigned depth) {
    return text("(", v.x, ", ", v.y, depth > 1 ? text(", ", v.z) : "", ")");
  }
  std::string where(bool thread = false) const {
    return text("kernel ", launch->name, ", block ", at(blockIdx, gridDim.z),
                thread ? ", thread " + at(threadIdx, blockDim.z) : "");
  }
  // A launch's first failure is printed and stops it.
  bool fail(const std::string& line, int code = cudaErrorLaunchFailure) {
    int none = 0;
    if (failure.compare_exchange_strong(none, code)) print(line);
    return false;
  }
  void giveUp() { switchTo(&main); }  // after fail: its fibre is never resumed
  // Kept until the launch is over, since only then the count is known. What is
  // found on a stack was read before, where it is told.
  void readUnwritten(const void* p, Site site) {
    const char* stack = (const char*)current->stack;
    if (p >= stack && p < stack + current->size) return;
    for (Unwritten& u : unwritten)
      if (u.site == site) return void(++u.count);
    const bool ours = p >= arena && p < arena + arenaSize;
    unwritten.push_back(
        {site, 1, block,
         text(where(true), ": reads ", ours ? "shared" : "device",
              " memory that nobody has written")});
  }

  static void fibreMain() {
    Worker& w = *self;
    NOGPU_ASAN(__sanitizer_finish_switch_fiber(nullptr, &w.previous->stack,
                                               &w.previous->size));
    for (;;) {
      while (w.next < w.count && w.ready.empty() && !failure) {
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
    const size_t guard = sysconf(_SC_PAGESIZE);
    const size_t size = 512 * 1024;  // as much as a GPU; few pages are touched
    void* memory = mmap(nullptr, guard + size, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANON | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED || mprotect(memory, guard, PROT_NONE)) {
      print("no memory for another thread's stack");
      abort();
    }
    // Tops are staggered: at equal offsets they would share a few cache sets.
    char* stack = (char*)memory + guard;
    char* top = stack + size - fibres.size() % 32 * 128;
    void** frame = (void**)top - kNogpuFrame;
    frame[kNogpuEntry] = (void*)&fibreMain;
    fibres.emplace_back(new Fibre{frame, stack, size});
    return fibres.back().get();
  }
  void switchTo(Fibre* to) {
    Fibre* from = current;
    if (to == from) return;
    from->thread = threadIdx;
    previous = from;
    current = to;
    NOGPU_ASAN(
        __sanitizer_start_switch_fiber(&from->fake, to->stack, to->size));
    nogpu_switch(&from->sp, to->sp);
    NOGPU_ASAN(__sanitizer_finish_switch_fiber(from->fake, &previous->stack,
                                               &previous->size));
    threadIdx = from->thread;
  }
  // Who goes on: a fibre that was let go; else one that starts the next thread;
  // else the worker itself, which sees to those that wait.
  Fibre* pick() {
    if (failure || (ready.empty() && next == count)) return &main;
    if (ready.empty() && idle.empty()) return newFibre();
    Fibre* f = ready.empty() ? idle.back() : ready.front();
    ready.empty() ? idle.pop_back() : ready.pop_front();
    return f;
  }

  void begin(const Launch& l) {
    self = this;
    launch = &l;
    blockDim = l.block;
    gridDim = l.grid;
    count = l.block.x * l.block.y * l.block.z;
    inOrder.clear();
    for (unsigned t = 0; t < count; ++t)
      inOrder.push_back({t % l.block.x, t / l.block.x % l.block.y,
                         t / l.block.x / l.block.y});
    if (order().reverse) std::reverse(inOrder.begin(), inOrder.end());
    threads = inOrder;
    if (arena) return;
    arenaSize = kOptInShared + 1024 * (sharedNames + 1);  // and redzones
    arena = (char*)aligned_alloc(1024, arenaSize);
    NOGPU_ASAN(return;)    // which handles signals itself
    stack_t signals = {};  // for onSignal, should a stack overflow
    signals.ss_sp = signalStack;
    signals.ss_size = sizeof signalStack;
    sigaltstack(&signals, nullptr);
  }
  void run(uint64_t number) {
    const uint64_t x = gridDim.x, y = gridDim.y;
    block = number;
    blockIdx = make_uint3(block % x, block / x % y, block / x / y);
    if (order().shuffle) {
      threads = inOrder;
      std::shuffle(threads.begin(), threads.end(),
                   std::minstd_rand(order().seed + block));
    }
    next = 0;
    std::fill(std::begin(returned), std::end(returned), 0u);
    shared.assign(sharedNames, nullptr);
    arenaUsed = staticShared = 0;
    NOGPU_ASAN(__asan_poison_memory_region(arena, arenaSize));
    take(launch->shared);
    do {
      for (Fibre* f; (f = pick()) != &main;) switchTo(f);
    } while (!failure && release());
  }
  char* take(size_t bytes) {
    char* p = arena + arenaUsed;
    arenaUsed += (bytes + 255) / 128 * 128;  // with a redzone behind it
    NOGPU_ASAN(__asan_unpoison_memory_region(p, bytes));
    return (char*)memset(p, 0xFF, bytes);
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
    const size_t held = atBarrier.size(), gone = count - held;
    if (sites.size() == 1)
      return fail(text(where(), ": ", gone, " of ", count,
                       " threads returned before the barrier at ",
                       sites.begin()->first, " where ", held, " wait"));
    std::string list;
    for (auto& s : sites)
      list += text(list.empty() ? ": " : ", ", s.second,
                   list.empty() ? text(" of ", count) : "", " at ", s.first);
    return fail(text(where(), ": threads at different barriers", list,
                     gone ? text(", ", gone, " returned") : ""));
  }

  // ---- warps
  unsigned linear(uint3 t) const {
    return (t.z * blockDim.y + t.y) * blockDim.x + t.x;
  }
  unsigned exists(unsigned warp) const {  // the last one may be short
    return count - warp * 32 < 32 ? (1u << (count - warp * 32)) - 1 : ~0u;
  }
  uint64_t meet(const char* what, unsigned mask, uint64_t in, int source,
                Site site) {
    const unsigned t = linear(threadIdx), warp = t / 32, bit = 1u << t % 32;
    if (!(mask & bit)) {
      fail(text(where(true), " is lane ", t % 32, ", not in mask ", hex(mask),
                " of its ", what, " at ", site));
      giveUp();
    }
    Fibre* me = lanes[t] = current;
    me->what = what;
    me->site = site;
    me->mask = mask;
    me->in = in;
    me->source = source;
    waiting[warp] |= bit;
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
      vote |= unsigned(lane[i]->in != 0) << i;
    }
    for (unsigned n = 0; n < 32; ++n) {
      const unsigned i = order().reverse ? 31 - n : n;
      if (!(group >> i & 1)) continue;
      Fibre& f = *lane[i];
      f.out = f.source == kMatch ? 0 : vote;
      for (unsigned j = 0; f.source == kMatch && j < 32; ++j)
        if (group >> j & 1 && lane[j]->in == f.in) f.out |= 1u << j;
      if (f.source >= 0 && group >> f.source & 1) f.out = lane[f.source]->in;
      if (f.source >= 0 && !(group >> f.source & 1))
        fail(text(where(), ", warp ", warp, ": lane ", i, " reads lane ",
                  f.source, ", not in mask ", hex(f.mask), ", in ", f.what,
                  " at ", f.site));
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
  bool failWarp() {
    unsigned w = 0;
    while (!waiting[w]) ++w;
    const Fibre& f = *lanes[w * 32 + __builtin_ctz(waiting[w])];
    unsigned same = 0;
    std::string other;
    for (unsigned i = 0; i < 32; ++i) {
      const Fibre* o = lanes[w * 32 + i];
      const bool waits = waiting[w] >> i & 1;
      const bool with = waits && o->site == f.site && o->mask == f.mask;
      same += with;
      if (f.mask >> i & 1 && !with && other.empty())
        other = text("lane ", i,
                     waits ? text(" waits in ", o->what, " at ", o->site)
                     : returned[w] >> i & 1 ? " has returned"
                     : exists(w) >> i & 1   ? " waits at a barrier"
                                            : " does not exist");
    }
    return fail(text(where(), ", warp ", w, ": ", same, " of ",
                     __builtin_popcount(f.mask), " lanes in mask ", hex(f.mask),
                     " wait in ", f.what, " at ", f.site, ", but ", other));
  }
};

// translate.pl puts read(..) around what a kernel reads through a pointer or
// from shared memory. Only floats can tell: an integer may well be -1.
template <class T>
inline constexpr size_t kFloats = 0;  // in a T, if it is made of them
template <>
inline constexpr size_t kFloats<float> = 1;
template <>
inline constexpr size_t kFloats<float2> = 2;
template <>
inline constexpr size_t kFloats<float3> = 3;
template <>
inline constexpr size_t kFloats<float4> = 4;
inline void unwritten(const void* p, Site site) {
  if (self && self->inKernel()) self->readUnwritten(p, site);
}
#ifdef __clang__  // whose sanitizers would name this file, not the student's
#define NOGPU_INLINE __attribute__((always_inline, nodebug)) inline
#else
#define NOGPU_INLINE __attribute__((always_inline, artificial)) inline
#endif
// A GPU takes a vector as a whole, and only at a multiple of its size.
template <class T>
NOGPU_INLINE void aligned(const T* place, Site site) {
  uintptr_t address = (uintptr_t)place;
  asm("" : "+r"(address));  // or the compiler thinks that it knows
  if (__builtin_expect(address % alignof(T) != 0, 0) && self &&
      self->inKernel()) {
    self->fail(text(self->where(true), ": misaligned address, ", sizeof(T),
                    " bytes at no multiple of ", alignof(T), ", at ", site),
               cudaErrorMisalignedAddress);
    self->giveUp();
  }
}
template <class T>
NOGPU_INLINE T& read(T& value, NOGPU_SITE) {
  if constexpr (alignof(T) > 4) aligned(&value, site);
  bool written = true;
  for (size_t i = 0; i < kFloats<std::remove_cv_t<T>>; ++i) {
    uint32_t bits;
    memcpy(&bits, (const char*)&value + 4 * i, sizeof bits);
    written &= bits != ~0u;
  }
  if (__builtin_expect(!written, 0)) unwritten((const void*)&value, site);
  return value;
}

// A sanitizer or a signal stops the program: which thread was it?
inline void nameThread() {
  static bool told = false;
  if (self && self->inKernel() && !told) print("in " + self->where(true));
  told = true;
}
inline void onSignal(int number) {
  if (number != SIGABRT && self && self->inKernel()) {
    self->fail(self->where(true) + (number == SIGFPE
                                        ? ": integer division by zero"
                                        : ": illegal or misaligned access"),
               cudaErrorIllegalAddress);
    self->giveUp();
  }
  nameThread();
  signal(number, SIG_DFL);
}

struct Pool {  // of workers; the thread that launches is one of them
  std::mutex m;
  std::condition_variable wake, done;
  std::map<std::thread::id, Worker> callers;  // a worker never changes threads
  const Launch* launch = nullptr;
  uint64_t launches = 0;
  unsigned size = 0, busy = 0;  // workers; those at work apart from the caller
  std::map<std::string, Unwritten> unwritten;  // of this launch, by place
  std::set<std::string> told;                  // of any launch

  cudaError run(const Launch& l) {
    if (!size) start();
    std::unique_lock<std::mutex> lock(m);
    launch = &l;
    nextBlock = failure = 0;
    busy = size - 1;
    ++launches;
    lock.unlock();
    wake.notify_all();
    Worker& w = callers[std::this_thread::get_id()];
    work(w, l);
    lock.lock();
    collect(w);
    done.wait(lock, [&] { return busy == 0; });
    for (auto& [place, u] : unwritten)
      if (told.insert(l.name + place).second)
        print(text(u.first, ", at ", place, ", ", u.count,
                   u.count == 1 ? " time" : " times", " in this launch"));
    unwritten.clear();
    return cudaError(failure.load());
  }
  void collect(Worker& w) {  // what it has read; the first block is named
    for (Unwritten& u : w.unwritten) {
      Unwritten& sum = unwritten.emplace(text(u.site), u).first->second;
      if (u.block < sum.block) std::swap(u, sum);
      if (u.block != sum.block) sum.count += u.count;
    }
    w.unwritten.clear();
  }
  static void work(Worker& w, const Launch& l) {
    w.begin(l);
    const uint64_t blocks = uint64_t{l.grid.x} * l.grid.y * l.grid.z;
    for (uint64_t b; !failure && (b = nextBlock++) < blocks;) w.run(b);
    w.launch = nullptr;
  }
  void loop() {
    Worker& w = *new Worker;  // of a thread that never ends
    std::unique_lock<std::mutex> lock(m);
    for (uint64_t seen = 0;;) {
      wake.wait(lock, [&] { return launches != seen; });
      seen = launches;
      lock.unlock();
      work(w, *launch);
      lock.lock();
      collect(w);
      if (--busy == 0) done.notify_one();
    }
  }
  void start() {
    // At most 16 unless asked: each may need 1024 stacks.
    const unsigned cores = std::thread::hardware_concurrency();
    const int asked = atoi(env("NOGPU_THREADS").c_str());
    size = asked > 0 ? asked : std::clamp(cores, 1u, 16u);
    for (unsigned i = 1; i < size; ++i)
      std::thread([this] { loop(); }).detach();
#if !defined(__APPLE__) || defined(__SANITIZE_ADDRESS__)
    if (__sanitizer_set_death_callback)
      __sanitizer_set_death_callback(nameThread);
#endif
    NOGPU_ASAN(return;)
    struct sigaction action = {};
    action.sa_handler = onSignal;
    action.sa_flags = SA_NODEFER | SA_ONSTACK;
    for (int s : {SIGSEGV, SIGBUS, SIGFPE, SIGABRT})
      sigaction(s, &action, nullptr);
  }
};

}  // namespace nogpu

// UndefinedBehaviorSanitizer calls this before it reports.
extern "C" __attribute__((weak)) void __ubsan_on_report(void) {
  nogpu::nameThread();
}
