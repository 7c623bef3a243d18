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
  void run(uint64_t block) {
    const uint64_t x = gridDim.x, y = gridDim.y;
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
  // Shared memory starts as 0xFF bytes: NaN in floats, -1 in integers.
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

  cudaError run(const Launch& l) {
    if (!size) start();
    std::unique_lock<std::mutex> lock(m);
    launch = &l;
    nextBlock = failure = 0;
    busy = size - 1;
    ++launches;
    lock.unlock();
    wake.notify_all();
    work(callers[std::this_thread::get_id()], l);
    lock.lock();
    done.wait(lock, [&] { return busy == 0; });
    return cudaError(failure.load());
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

// ---------------------------------------------------- memory, streams, events
// A stream is a queue of work that runs when the program waits for it and not
// before, so that a missing wait shows.
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
  uint64_t asked = 0, done = 0;  // numbers of the work that records it
  bool timed = true;
  std::chrono::steady_clock::time_point time;
};

namespace nogpu {

struct Memory {
  size_t size;
  bool device;  // else pinned memory of the host
  bool owned;   // else a __device__ variable, or registered: not to be freed
};
struct Pointer {  // among the arguments of a kernel
  unsigned place;
  const void* address;
  bool constant;
};

struct Device {
  std::recursive_mutex m;
  std::map<const char*, Memory> memory;  // by its start
  size_t used = 0;
  uint64_t number = 0;
  CUstream_st standard;  // the default stream
  std::set<CUstream_st*> streams;
  std::map<CUevent_st*, std::shared_ptr<CUevent_st>> events;
  std::map<const void*, size_t> sharedLimits;  // of kernels that ask for more
  cudaError last = cudaSuccess, sticky = cudaSuccess;
  Pool pool;

  static Device& get() {
    static Device& only = *new Device;  // outlives the worker threads
    return only;
  }
  static size_t page() { return sysconf(_SC_PAGESIZE); }
  static size_t total() { return page() * sysconf(_SC_PHYS_PAGES); }

  // The known memory that holds p, or ends at p; or null.
  const std::pair<const char* const, Memory>* find(const void* p) const {
    auto it = memory.upper_bound((const char*)p);
    if (it == memory.begin()) return nullptr;
    --it;
    return (const char*)p <= it->first + it->second.size ? &*it : nullptr;
  }
  bool isDevice(const void* p) const {
    return find(p) && find(p)->second.device;
  }
  bool fits(const void* p, size_t bytes) const {
    auto* known = find(p);
    return !known ||
           (const char*)p + bytes <= known->first + known->second.size;
  }
  // An allocation ends at a page that must not be touched; AddressSanitizer
  // guards its own. Device memory starts as 0xFF bytes.
  cudaError allocate(void** p, size_t bytes, bool device) {
    if (!p) return cudaErrorInvalidValue;
    *p = nullptr;
    if (!bytes) return cudaSuccess;
    if (bytes > total() - used) return cudaErrorMemoryAllocation;
#ifdef __SANITIZE_ADDRESS__
    if (posix_memalign(p, 256, bytes)) return cudaErrorMemoryAllocation;
#else
    const size_t rounded = (bytes + 255) / 256 * 256;
    const size_t size = (rounded + page() - 1) / page() * page();
    void* start = mmap(nullptr, size + page(), PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANON, -1, 0);
    if (start == MAP_FAILED) return cudaErrorMemoryAllocation;
    mprotect((char*)start + size, page(), PROT_NONE);
    *p = (char*)start + size - rounded;
#endif
    if (device) memset(*p, 0xFF, bytes);
    used += bytes;
    memory[(char*)*p] = {bytes, device, true};
    return cudaSuccess;
  }
  cudaError release(void* p, bool device) {
    auto it = memory.find((char*)p);
    if (!p) return cudaSuccess;
    if (it == memory.end() || it->second.device != device || !it->second.owned)
      return cudaErrorInvalidValue;
    const size_t size = it->second.size;
    used -= size;
    memory.erase(it);
#ifdef __SANITIZE_ADDRESS__
    free(p);
#else
    const size_t lead = (size_t)p % page();
    munmap((char*)p - lead, lead + (size + 255) / 256 * 256 + page());
#endif
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
    for (;;) {
      CUstream_st* next = &standard;
      for (CUstream_st* t : streams)
        if (!t->queue.empty() &&
            (next->queue.empty() ||
             t->queue.front().number > next->queue.front().number))
          next = t;
      if (next->queue.empty()) return;
      step(next);
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

  size_t sharedLimit(const void* kernel) {
    size_t most = kShared;
    for (auto& raised : sharedLimits)
      if (!kernel || raised.first == kernel)
        most = std::max(most, raised.second);
    return most;
  }
  // What a GPU refuses; and what it should: host memory, in and out the same.
  cudaError check(const Launch& l, const std::vector<Pointer>& pointers) {
    const uint64_t threads = uint64_t{l.block.x} * l.block.y * l.block.z;
    cudaError e = cudaErrorInvalidConfiguration;
    std::string why;
    if (!threads || threads > kMaxThreads || l.block.z > 64)
      why = text("block ", l.block, ": a GPU takes 1 to 1024 threads");
    else if (!l.grid.x || !l.grid.y || !l.grid.z || l.grid.x > INT_MAX ||
             l.grid.y > 65535 || l.grid.z > 65535)
      why = text("grid ", l.grid, ": a GPU takes 2147483647 x 65535 x 65535");
    else if (l.shared > l.sharedLimit)
      e = cudaErrorInvalidValue,
      why = text(l.shared, " bytes of shared memory, over ", l.sharedLimit);
    else if (!stream(l.stream))
      e = cudaErrorInvalidResourceHandle, why = "no such stream";
    for (const Pointer& p : pointers) {
      if (!find(p.address))
        e = sticky = cudaErrorIllegalAddress,
        why = text("argument ", p.place, " points to host or freed memory");
      for (const Pointer& q : pointers)
        if (p.constant && !q.constant && p.address == q.address)
          e = sticky = cudaErrorLaunchFailure,
          why = text("in and out are the same buffer, arguments ", p.place,
                     " and ", q.place);
    }
    if (why.empty()) return cudaSuccess;
    print(text("kernel ", l.name, " at ", l.site, ": ", why));
    return e;
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
template <class F>
cudaError api(cudaStream_t stream, F call) {  // of a call that names a stream
  return api([&](Device& d) {
    CUstream_st* s = d.stream(stream);
    return s ? call(d, s) : cudaErrorInvalidResourceHandle;
  });
}

// Copies rows of `width` bytes. Pinned memory is read and written when the
// stream comes to it, pageable memory before this returns.
inline cudaError copy(void* to, size_t toPitch, const void* from,
                      size_t fromPitch, size_t width, size_t rows, int kind,
                      cudaStream_t stream, bool wait) {
  return api(stream, [&](Device& d, CUstream_st* s) {
    const bool toDevice = d.isDevice(to), fromDevice = d.isDevice(from);
    if (kind < 0 || kind > 4) return cudaErrorInvalidMemcpyDirection;
    if (!width || !rows) return cudaSuccess;
    if (rows > 1 && (toPitch < width || fromPitch < width))
      return cudaErrorInvalidPitchValue;
    if (!to || !from || !d.fits(to, (rows - 1) * toPitch + width) ||
        !d.fits(from, (rows - 1) * fromPitch + width) ||
        (kind != 4 && kind != 2 * fromDevice + toDevice))
      return cudaErrorInvalidValue;
    auto work = [=](char* t, size_t tPitch, const char* f, size_t fPitch) {
      for (size_t r = 0; r < rows; ++r, t += tPitch, f += fPitch)
        memmove(t, f, width);
    };
    if (!toDevice && !d.find(to)) wait = true;
    if (toDevice && fromDevice) wait = false;
    if (!wait && !d.find(from)) {
      auto staged = std::make_shared<std::vector<char>>(width * rows);
      work(staged->data(), width, (const char*)from, fromPitch);
      d.add(s, [=] { work((char*)to, toPitch, staged->data(), width); });
    } else {
      d.add(s, [=] { work((char*)to, toPitch, (const char*)from, fromPitch); });
    }
    if (wait) d.drain(s);
    return cudaSuccess;
  });
}

}  // namespace nogpu
