// device.h - the card: memory, streams, events, and what a launch may ask for.
// Included by cuda_runtime.h, after emulator.h.
//
// Work goes into the queue of its stream and runs when the program waits for it
// and not before, so that a missing wait shows. Memory starts as 0xFF bytes:
// NaN in floats, -1 in integers.
// SPDX-License-Identifier: MIT
#pragma once
#pragma GCC system_header  // warnings are for the student's code

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
