// cuda_runtime.h - the part of CUDA that this project uses, on the CPU. The
// `nvcc` beside it puts it in front of every .cu file:
//   sh exercises/no-gpu/nvcc -std=c++17 -O3 -o convolution convolution.cu
//
// Here are the words of the language, the API and the device functions;
// emulator.h runs the kernels, device.h keeps memory and streams. With
// NOGPU_TIMING=1 in the environment cudaEventElapsedTime answers; its times
// mean nothing for a GPU.
//
// SPDX-License-Identifier: MIT
#pragma once
#pragma GCC system_header  // warnings are for the student's code
#include <limits.h>
#include <math.h>

#include <limits>
#include <thread>
#include <type_traits>
#ifndef NOGPU_SM  // nvcc -arch=sm_XX
#define NOGPU_SM 75
#endif

// ------------------------------------------------------ words of the language
// __shared__, __noinline__ and <<< >>> are replaced by translate.pl.
// Kernels see __CUDA_ARCH__ undefined.
#define __global__
#define __device__
#define __host__
#define __constant__
#define __grid_constant__
#define __launch_bounds__(...)
#define __forceinline__ inline
#define __align__(n) __attribute__((aligned(n)))
#define CUDART_CB
#define CUDART_VERSION 0

// clang-format off
// Vectors have a GPU's alignment: -fsanitize=undefined finds misaligned access,
// clang's only where copying is not trivial.
#ifdef __clang__
#if __has_feature(undefined_behavior_sanitizer)
struct nogpu_Copied {
  constexpr nogpu_Copied() {}
  constexpr nogpu_Copied(const nogpu_Copied&) {}
  constexpr nogpu_Copied& operator=(const nogpu_Copied&) { return *this; }
};
#define COPIED [[no_unique_address]] nogpu_Copied copied = {};
#endif
#endif
#ifndef COPIED
#define COPIED
#endif
#define VECTOR(T, V, align2, align4)                                          \
  struct V##1 { T x; };                                                       \
  struct alignas(align2) V##2 { T x, y; COPIED };                                  \
  struct V##3 { T x, y, z; };                                                 \
  struct alignas(align4) V##4 { T x, y, z, w; COPIED };                            \
  constexpr V##1 make_##V##1(T x) { return {x}; }                             \
  constexpr V##2 make_##V##2(T x, T y) { return {x, y}; }                     \
  constexpr V##3 make_##V##3(T x, T y, T z) { return {x, y, z}; }             \
  constexpr V##4 make_##V##4(T x, T y, T z, T w) { return {x, y, z, w}; }
VECTOR(signed char, char, 2, 4) VECTOR(unsigned char, uchar, 2, 4)
VECTOR(short, short, 4, 8) VECTOR(unsigned short, ushort, 4, 8)
VECTOR(int, int, 8, 16) VECTOR(unsigned, uint, 8, 16)
VECTOR(long long, longlong, 16, 16) VECTOR(float, float, 8, 16)
VECTOR(unsigned long long, ulonglong, 16, 16) VECTOR(double, double, 16, 16)

#define ERRORS(E)                                                             \
  E(Success, 0, "no error")                                                   \
  E(ErrorInvalidValue, 1, "invalid argument")                                 \
  E(ErrorMemoryAllocation, 2, "out of memory")                                \
  E(ErrorInitializationError, 3, "initialization error")                      \
  E(ErrorInvalidConfiguration, 9, "invalid configuration argument")           \
  E(ErrorInvalidPitchValue, 12, "invalid pitch argument")                     \
  E(ErrorInvalidSymbol, 13, "invalid device symbol")                          \
  E(ErrorInvalidDevicePointer, 17, "invalid device pointer")                  \
  E(ErrorInvalidMemcpyDirection, 21, "invalid copy direction for memcpy")     \
  E(ErrorInsufficientDriver, 35,                                              \
    "CUDA driver version is insufficient for CUDA runtime version")           \
  E(ErrorInvalidDeviceFunction, 98, "invalid device function")                \
  E(ErrorNoDevice, 100, "no CUDA-capable device is detected")                 \
  E(ErrorInvalidDevice, 101, "invalid device ordinal")                        \
  E(ErrorInvalidKernelImage, 200, "device kernel image is invalid")           \
  E(ErrorNoKernelImageForDevice, 209,                                         \
    "no kernel image is available for execution on the device")               \
  E(ErrorInvalidPtx, 218, "a PTX JIT compilation failed")                     \
  E(ErrorUnsupportedPtxVersion, 222,                                          \
    "the provided PTX was compiled with an unsupported toolchain.")           \
  E(ErrorInvalidResourceHandle, 400, "invalid resource handle")               \
  E(ErrorNotReady, 600, "device not ready")                                   \
  E(ErrorIllegalAddress, 700, "an illegal memory access was encountered")     \
  E(ErrorLaunchOutOfResources, 701, "too many resources requested for launch") \
  E(ErrorHostMemoryAlreadyRegistered, 712,                                    \
    "part or all of the requested memory range is already mapped")            \
  E(ErrorHostMemoryNotRegistered, 713,                                        \
    "pointer does not correspond to a registered memory region")              \
  E(ErrorMisalignedAddress, 716, "misaligned address")                        \
  E(ErrorLaunchFailure, 719, "unspecified launch failure")                    \
  E(ErrorNotSupported, 801, "operation not supported")                        \
  E(ErrorUnknown, 999, "unknown error")
#define E(name, number, text) cuda##name = number,
enum cudaError : unsigned { ERRORS(E) };
#undef E
using cudaError_t = cudaError;
inline const char* cudaGetErrorName(cudaError_t e) {
#define E(name, number, text) e == number ? "cuda" #name :
  return ERRORS(E) "unrecognized error code";
#undef E
}
inline const char* cudaGetErrorString(cudaError_t e) {
#define E(name, number, text) e == number ? text :
  return ERRORS(E) "unrecognized error code";
#undef E
}

// clang-format on

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
using cudaStream_t = struct CUstream_st*;
using cudaEvent_t = struct CUevent_st*;

#include "emulator.h"
#include "device.h"

// ----------------------------------------- what translate.pl makes of the rest
namespace nogpu {

template <class T>
void note(std::vector<Pointer>&, unsigned, const T&) {}
template <class T>
void note(std::vector<Pointer>& list, unsigned place, T* p) {
  if (p && !std::is_function<T>::value)
    list.push_back({place, (const void*)p, std::is_const<T>::value});
}
template <class F, class... A>
struct Bound {  // a kernel and its arguments, copied at the launch
  F kernel;
  std::tuple<A...> arguments;
  static void thread(const void* p) {
    std::apply(((const Bound*)p)->kernel, ((const Bound*)p)->arguments);
  }
};
template <class F, class... A>
void submit(Launch l, F kernel, A... arguments) {
  if (self && self->inKernel()) {
    self->fail(text(self->where(true), ": launches kernel ", l.name, " at ",
                    l.site, ", which is not supported without a GPU"));
    self->giveUp();
  }
  api([&](Device& d) {
    std::vector<Pointer> pointers;
    unsigned place = 0;
    (note(pointers, ++place, arguments), ...);
    l.sharedLimit = d.sharedLimit(l.function);
    const cudaError e = d.check(l, pointers);
    if (e) return e;
    const Bound<F, A...> bound{kernel, {arguments...}};
    l.thread = &Bound<F, A...>::thread;
    d.add(d.stream(l.stream), [l, bound, &d]() mutable {
      l.arguments = &bound;
      if (cudaError failed = d.pool.run(l)) d.sticky = failed;
    });
    return cudaSuccess;
  });
}
// With its parameters known, arguments are converted to them; without, as for a
// template whose arguments follow from the call, they are taken as they are.
template <class... P>
auto bind(Launch l, void (*kernel)(P...)) {
  l.function = (const void*)kernel;
  return [=](P... arguments) { submit(l, kernel, arguments...); };
}
template <class F>
auto bind(Launch l, F kernel) {
  return [=](auto... arguments) { submit(l, kernel, arguments...); };
}
template <class F>
struct Kernel {
  const char* name;
  F function;
  auto on(dim3 grid, dim3 block, size_t shared = 0,
          cudaStream_t stream = nullptr, NOGPU_SITE) const {
    return nogpu::bind({name, nullptr, site, grid, block, shared, stream},
                       function);
  }
};
template <class F>
Kernel(const char*, F) -> Kernel<F>;
// translate.pl makes NOGPU_KERNEL(name).on(grid, block)(arguments) of a launch;
#define NOGPU_KERNEL(...) (nogpu::Kernel{#__VA_ARGS__, __VA_ARGS__})
#define NOGPU_DEDUCED(...) \
  (nogpu::Kernel{#__VA_ARGS__, [](auto... a) { __VA_ARGS__(a...); }})

// and of __shared__ T name[N]: a reference to the block's copy. The lambda that
// each declaration passes has a type, and so a number, of its own.
template <class Tag>
inline const unsigned sharedNumber = sharedNames++;
template <class T, class Tag>
T& shared(const char* name, Tag, NOGPU_SITE) {
  static_assert(sizeof(T) <= kShared, "a block has 48 KiB of shared memory");
  const unsigned n = sharedNumber<Tag>;
  Worker& w = *self;
  if (!w.shared[n]) {
    w.staticShared += sizeof(T);
    const size_t dynamic = w.launch->shared, limit = w.launch->sharedLimit;
    if (w.staticShared > kShared || w.staticShared + dynamic > limit) {
      w.fail(text(w.where(), ": ", w.staticShared, " bytes of static and ",
                  dynamic, " of dynamic shared memory with ", name, " at ",
                  site, ", over ", limit));
      w.giveUp();
    }
    w.shared[n] = w.take(sizeof(T));
  }
  return *(T*)w.shared[n];
}
template <class T>
T* dynamicShared() {
  return (T*)self->arena;
}

}  // namespace nogpu

// -------------------------------------------------------------------- the API
// API(name(parameters), body): d is the device; STREAM_API: s is the stream.
#define API(signature, ...)                                  \
  inline cudaError_t signature {                             \
    return nogpu::api([&](nogpu::Device& d) -> cudaError_t { \
      (void)d;                                               \
      __VA_ARGS__;                                           \
      return cudaSuccess;                                    \
    });                                                      \
  }
#define STREAM_API(signature, ...)                                           \
  inline cudaError_t signature {                                             \
    return nogpu::api(stream,                                                \
                      [&](nogpu::Device& d, cudaStream_t s) -> cudaError_t { \
                        (void)d;                                             \
                        __VA_ARGS__;                                         \
                        return cudaSuccess;                                  \
                      });                                                    \
  }
inline cudaError_t cudaPeekAtLastError() {
  nogpu::Device& d = nogpu::Device::get();
  return d.sticky ? d.sticky : d.last;
}
inline cudaError_t cudaGetLastError() {
  const cudaError_t e = cudaPeekAtLastError();
  nogpu::Device::get().last = cudaSuccess;
  return e;
}

// ---- memory
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
constexpr unsigned cudaHostAllocDefault = 0, cudaHostAllocPortable = 1,
                   cudaHostAllocMapped = 2, cudaHostAllocWriteCombined = 4,
                   cudaHostRegisterDefault = 0, cudaStreamDefault = 0,
                   cudaStreamNonBlocking = 1, cudaEventDefault = 0,
                   cudaEventBlockingSync = 1, cudaEventDisableTiming = 2;
API(cudaMalloc(void** p, size_t bytes), return d.allocate(p, bytes, true))
API(cudaMallocHost(void** p, size_t n, unsigned = 0),
    return d.allocate(p, n, false))
template <class T>
cudaError_t cudaMalloc(T** p, size_t bytes) {
  return cudaMalloc((void**)p, bytes);
}
template <class T>
cudaError_t cudaMallocHost(T** p, size_t bytes, unsigned = 0) {
  return cudaMallocHost((void**)p, bytes);
}
template <class T>
cudaError_t cudaHostAlloc(T** p, size_t bytes, unsigned) {
  return cudaMallocHost((void**)p, bytes);
}
template <class T>
cudaError_t cudaMallocAsync(T** p, size_t bytes, cudaStream_t) {
  return cudaMalloc((void**)p, bytes);
}
API(cudaFree(void* p), d.drain(); return d.release(p, true))
API(cudaFreeHost(void* p), d.drain(); return d.release(p, false))
STREAM_API(cudaFreeAsync(void* p, cudaStream_t stream), {
  if (!d.isDevice(p)) return cudaErrorInvalidValue;
  d.add(s, [=, &d] { d.release(p, true); });
})
API(cudaHostRegister(void* p, size_t bytes, unsigned), {
  if (!p || !bytes) return cudaErrorInvalidValue;
  if (d.find(p)) return cudaErrorHostMemoryAlreadyRegistered;
  d.memory[(char*)p] = {bytes, false, false};
})
API(cudaHostUnregister(void* p), {
  d.drain();
  auto it = d.memory.find((char*)p);
  if (it == d.memory.end() || it->second.device || it->second.owned)
    return cudaErrorHostMemoryNotRegistered;
  d.memory.erase(it);
})
API(cudaMemGetInfo(size_t* free, size_t* total), {
  *total = d.total();
  *free = *total - d.used;
})
API(cudaPointerGetAttributes(cudaPointerAttributes* a, const void* p), {
  const bool known = d.find(p), device = d.isDevice(p);
  *a = {known ? device ? cudaMemoryTypeDevice : cudaMemoryTypeHost
              : cudaMemoryTypeUnregistered,
        0, known ? (void*)p : nullptr, device ? nullptr : (void*)p};
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
STREAM_API(cudaMemsetAsync(void* p, int value, size_t bytes,
                           cudaStream_t stream = nullptr),
           if (bytes &&
               (!d.find(p) || !d.fits(p, bytes))) return cudaErrorInvalidValue;
           d.add(s, [=] { memset(p, value, bytes); }))
inline cudaError_t cudaMemset(void* p, int value, size_t bytes) {
  return cudaMemsetAsync(p, value, bytes);
}
template <class T>
cudaError_t cudaGetSymbolAddress(void** p, const T& symbol) {
  *p = (void*)&symbol;
  return nogpu::api([&](nogpu::Device& d) {
    d.memory[(char*)*p] = {sizeof symbol, true, false};
    return cudaSuccess;
  });
}
template <class T>
cudaError_t cudaMemcpyToSymbol(const T& symbol, const void* from, size_t bytes,
                               size_t offset = 0,
                               cudaMemcpyKind kind = cudaMemcpyHostToDevice) {
  void* p;
  const cudaError_t e = cudaGetSymbolAddress(&p, symbol);
  return e ? e : cudaMemcpy((char*)p + offset, from, bytes, kind);
}
template <class T>
cudaError_t cudaMemcpyFromSymbol(void* to, const T& symbol, size_t bytes,
                                 size_t offset = 0,
                                 cudaMemcpyKind kind = cudaMemcpyDeviceToHost) {
  void* p;
  const cudaError_t e = cudaGetSymbolAddress(&p, symbol);
  return e ? e : cudaMemcpy(to, (char*)p + offset, bytes, kind);
}
template <class T>
cudaError_t cudaMemcpyToSymbolAsync(const T& symbol, const void* from,
                                    size_t bytes, size_t offset,
                                    cudaMemcpyKind kind,
                                    cudaStream_t stream = nullptr) {
  void* p;
  const cudaError_t e = cudaGetSymbolAddress(&p, symbol);
  return e ? e : cudaMemcpyAsync((char*)p + offset, from, bytes, kind, stream);
}
template <class T>
cudaError_t cudaMemcpyFromSymbolAsync(void* to, const T& symbol, size_t bytes,
                                      size_t offset, cudaMemcpyKind kind,
                                      cudaStream_t stream = nullptr) {
  void* p;
  const cudaError_t e = cudaGetSymbolAddress(&p, symbol);
  return e ? e : cudaMemcpyAsync(to, (char*)p + offset, bytes, kind, stream);
}

// ---- streams and events
API(cudaDeviceSynchronize(), d.drain())
API(cudaStreamCreateWithFlags(cudaStream_t* s, unsigned flags), {
  d.streams.insert(*s = new CUstream_st);
  (*s)->blocking = flags != cudaStreamNonBlocking;
})
inline cudaError_t cudaStreamCreate(cudaStream_t* s) {
  return cudaStreamCreateWithFlags(s, cudaStreamDefault);
}
STREAM_API(cudaStreamDestroy(cudaStream_t stream), {
  if (!stream) return cudaErrorInvalidResourceHandle;
  d.drain(s);
  d.streams.erase(s);
  delete s;
})
STREAM_API(cudaStreamSynchronize(cudaStream_t stream), d.drain(s))
STREAM_API(cudaStreamQuery(cudaStream_t stream), {
  if (s->queue.empty()) return cudaSuccess;
  d.step(s);  // so that a loop which asks again and again comes to its end
  return cudaErrorNotReady;
})
STREAM_API(cudaLaunchHostFunc(cudaStream_t stream, void (*f)(void*), void* p),
           d.add(s, [=] { f(p); }))
API(cudaEventCreateWithFlags(cudaEvent_t* e, unsigned flags), {
  auto event = std::make_shared<CUevent_st>();
  event->timed = !(flags & cudaEventDisableTiming);
  d.events[*e = event.get()] = event;
})
inline cudaError_t cudaEventCreate(cudaEvent_t* e) {
  return cudaEventCreateWithFlags(e, cudaEventDefault);
}
API(cudaEventDestroy(cudaEvent_t e),
    if (!d.events.erase(e)) return cudaErrorInvalidResourceHandle)
STREAM_API(cudaEventRecord(cudaEvent_t e, cudaStream_t stream = nullptr), {
  if (!d.events.count(e)) return cudaErrorInvalidResourceHandle;
  const bool now = d.idle(s);  // nothing to wait for: it happens at once
  const uint64_t record = e->asked = d.number + 1;
  e->stream = s;
  d.add(s, [event = d.events[e], record] {
    if (event->done > record) return;  // a later record came first
    event->done = record;
    event->time = std::chrono::steady_clock::now();
  });
  if (now) d.step(s);
})
API(cudaEventSynchronize(cudaEvent_t e), {
  if (!d.events.count(e)) return cudaErrorInvalidResourceHandle;
  d.until(e, e->asked);
})
API(cudaEventQuery(cudaEvent_t e), {
  if (!d.events.count(e)) return cudaErrorInvalidResourceHandle;
  if (e->done == e->asked) return cudaSuccess;
  d.step(e->stream);
  return cudaErrorNotReady;
})
STREAM_API(cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t e,
                               unsigned = 0),
           if (!d.events.count(e)) return cudaErrorInvalidResourceHandle;
           d.add(s, [&d, event = d.events[e], record = e->asked] {
             d.until(event.get(), record);
           }))
inline cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t from,
                                        cudaEvent_t to) {
  const cudaError_t e = nogpu::api([&](nogpu::Device& d) {
    for (cudaEvent_t v : {from, to}) {
      if (!d.events.count(v) || !v->asked || !v->timed)
        return cudaErrorInvalidResourceHandle;
      if (v->done < v->asked) return cudaErrorNotReady;
    }
    using Milliseconds = std::chrono::duration<float, std::milli>;
    *ms = Milliseconds(to->time - from->time).count();
    return cudaSuccess;
  });
  // Not kept for cudaGetLastError: the program is meant to go on without times.
  return e || nogpu::env("NOGPU_TIMING") == "1" ? e : cudaErrorNotSupported;
}

// ---- the device
struct cudaDeviceProp {
  char name[256];
  size_t totalGlobalMem = nogpu::Device::total(), totalConstMem = 65536,
         sharedMemPerBlock = nogpu::kShared, memPitch = INT_MAX,
         sharedMemPerBlockOptin = nogpu::kOptInShared,
         sharedMemPerMultiprocessor = nogpu::kOptInShared;
  int major = NOGPU_SM / 10, minor = NOGPU_SM % 10, warpSize = 32,
      multiProcessorCount = std::thread::hardware_concurrency(),
      maxThreadsPerBlock = 1024, maxThreadsDim[3] = {1024, 1024, 64},
      maxGridSize[3] = {INT_MAX, 65535, 65535}, regsPerBlock = 65536,
      regsPerMultiprocessor = 65536, maxThreadsPerMultiProcessor = 1024,
      maxBlocksPerMultiProcessor = 16, concurrentKernels = 1,
      asyncEngineCount = 1, unifiedAddressing = 1, canMapHostMemory = 1,
      integrated = 0, managedMemory = 0, ECCEnabled = 0, memoryBusWidth = 0,
      l2CacheSize = 0, persistingL2CacheMaxSize = 0, pciBusID = 0,
      pciDeviceID = 0, pciDomainID = 0;
};
struct cudaFuncAttributes {
  size_t sharedSizeBytes = 0, constSizeBytes = 0, localSizeBytes = 0;
  int maxThreadsPerBlock = 1024, numRegs = 0, ptxVersion = NOGPU_SM,
      binaryVersion = NOGPU_SM, maxDynamicSharedSizeBytes = 0;
};
// clang-format off
#define ATTRIBUTES(A)                                                         \
  A(MaxThreadsPerBlock, 1, 1024) A(MaxBlockDimX, 2, 1024)                     \
  A(MaxBlockDimY, 3, 1024) A(MaxBlockDimZ, 4, 64) A(MaxGridDimX, 5, INT_MAX)  \
  A(MaxGridDimY, 6, 65535) A(MaxGridDimZ, 7, 65535)                           \
  A(MaxSharedMemoryPerBlock, 8, nogpu::kShared)                               \
  A(TotalConstantMemory, 9, 65536) A(WarpSize, 10, 32)                        \
  A(MaxRegistersPerBlock, 12, 65536) A(ClockRate, 13, 0)                      \
  A(MultiProcessorCount, 16, std::thread::hardware_concurrency())             \
  A(Integrated, 18, 0) A(CanMapHostMemory, 19, 1) A(ConcurrentKernels, 31, 1) \
  A(EccEnabled, 32, 0) A(MemoryClockRate, 36, 0)                              \
  A(GlobalMemoryBusWidth, 37, 0) A(L2CacheSize, 38, 0)                        \
  A(MaxThreadsPerMultiProcessor, 39, 1024) A(AsyncEngineCount, 40, 1)         \
  A(UnifiedAddressing, 41, 1) A(ComputeCapabilityMajor, 75, NOGPU_SM / 10)    \
  A(ComputeCapabilityMinor, 76, NOGPU_SM % 10)                                \
  A(MaxSharedMemoryPerMultiprocessor, 81, nogpu::kOptInShared)                \
  A(MaxRegistersPerMultiprocessor, 82, 65536) A(ManagedMemory, 83, 0)         \
  A(CooperativeLaunch, 95, 0)                                                 \
  A(MaxSharedMemoryPerBlockOptin, 97, nogpu::kOptInShared)                    \
  A(MaxBlocksPerMultiprocessor, 106, 16)
#define A(name, number, value) cudaDevAttr##name = number,
enum cudaDeviceAttr { ATTRIBUTES(A) };
#undef A
enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize = 8,
                         cudaFuncAttributePreferredSharedMemoryCarveout = 9 };
// clang-format on
inline cudaError_t cudaDeviceGetAttribute(int* v, cudaDeviceAttr a, int n) {
#define A(name, number, value) a == number ? int(value):
  *v = ATTRIBUTES(A) 0;
#undef A
  return n ? cudaErrorInvalidDevice : cudaSuccess;
}
API(cudaGetDeviceCount(int* n), *n = 1)
API(cudaGetDevice(int* n), *n = 0)
API(cudaSetDevice(int n), if (n) return cudaErrorInvalidDevice)
API(cudaDeviceReset(), d.drain())
API(cudaDriverGetVersion(int* v), *v = 0)
API(cudaRuntimeGetVersion(int* v), *v = 0)
API(cudaGetDeviceProperties(cudaDeviceProp* p, int n), {
  if (n) return cudaErrorInvalidDevice;
  *p = cudaDeviceProp();
  strcpy(p->name, nogpu::env("NOGPU_TIMING") == "1"
                      ? "CPU emulation, times mean nothing for a GPU"
                      : "CPU emulation, no GPU timings");
})
template <class F>
cudaError_t cudaFuncSetAttribute(F* f, cudaFuncAttribute a, int value) {
  return nogpu::api([&](nogpu::Device& d) {
    if (a != cudaFuncAttributeMaxDynamicSharedMemorySize) return cudaSuccess;
    if (size_t(value) > nogpu::kOptInShared) return cudaErrorInvalidValue;
    d.sharedLimits[(const void*)f] = value;
    return cudaSuccess;
  });
}
template <class F>
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* a, F* f) {
  return nogpu::api([&](nogpu::Device& d) {
    *a = cudaFuncAttributes();
    a->maxDynamicSharedSizeBytes = d.sharedLimit((const void*)f);
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

// ----------------------------------------------------------- device functions
namespace nogpu {
template <class To, class From>
To bits(From v) {  // the bytes of a number as another
  static_assert(std::is_arithmetic<From>::value, "warps pass numbers");
  To to = 0;
  memcpy(&to, &v, std::min(sizeof to, sizeof v));
  return to;
}
template <class T>
T convert(double v) {  // saturates; NaN becomes 0
  constexpr T least = std::numeric_limits<T>::min();
  constexpr T most = std::numeric_limits<T>::max();
  return v <= least ? least : v >= most ? most : v == v ? T(v) : 0;
}
inline int lane() {
  return self->linear(threadIdx) % 32;
}
template <class T>
T shuffle(const char* what, unsigned mask, T v, int source, int width,
          Site site) {
  const int first = lane() & -width;
  if (source < first || source >= first + width) source = lane();
  return bits<T>(self->meet(what, mask, bits<uint64_t>(v), source, site));
}
}  // namespace nogpu
inline void __syncthreads(NOGPU_SITE) {
  nogpu::self->barrier(0, site);
}
inline int __syncthreads_count(int p, NOGPU_SITE) {
  return nogpu::self->barrier(p != 0, site);
}
inline int __syncthreads_or(int p, NOGPU_SITE) {
  return nogpu::self->barrier(p != 0, site) != 0;
}
inline int __syncthreads_and(int p, NOGPU_SITE) {
  return nogpu::self->barrier(p == 0, site) == 0;
}
inline void __syncwarp(unsigned mask = ~0u, NOGPU_SITE) {
  nogpu::self->meet("__syncwarp", mask, 0, nogpu::kVote, site);
}
inline unsigned __activemask() {  // those of its warp that have not returned
  const unsigned warp = nogpu::self->linear(threadIdx) / 32;
  return nogpu::self->exists(warp) & ~nogpu::self->returned[warp];
}
inline void __trap(NOGPU_SITE) {
  nogpu::self->fail(
      nogpu::text(nogpu::self->where(true), ": __trap at ", site));
  nogpu::self->giveUp();
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
#define VOTE(R, name, value, source, result)                                  \
  template <class T>                                                          \
  R name(unsigned mask, T v, NOGPU_SITE) {                                    \
    const unsigned got = nogpu::self->meet(#name, mask, value, source, site); \
    return result;                                                            \
  }
VOTE(unsigned, __ballot_sync, v != 0, nogpu::kVote, got)
VOTE(int, __any_sync, v != 0, nogpu::kVote, got != 0)
VOTE(int, __all_sync, v == 0, nogpu::kVote, got == 0)
VOTE(unsigned, __match_any_sync, nogpu::bits<uint64_t>(v), nogpu::kMatch, got)
#define SHUFFLE(name, By, source)                                             \
  template <class T>                                                          \
  T name(unsigned mask, T v, By by, int width = 32, NOGPU_SITE) {             \
    return nogpu::shuffle(#name, mask, v, source, width, site);               \
  }
SHUFFLE(__shfl_sync, int, (nogpu::lane() & -width) | (by & (width - 1)))
SHUFFLE(__shfl_up_sync, unsigned, nogpu::lane() - int(by))
SHUFFLE(__shfl_down_sync, unsigned, nogpu::lane() + int(by))
SHUFFLE(__shfl_xor_sync, int, nogpu::lane() ^ by)

// Blocks run on several cores, so atomics are atomic indeed. What counts and has
// no sign, but is all ones, was never set.
#define ATOMIC(name, counts, result)                                          \
  template <class T, class V>                                                 \
  T name(T* p, V value, NOGPU_SITE) {                                         \
    static_assert(sizeof(T) >= 4, #name " takes 32 or 64 bits");              \
    const T v = T(value);                                                     \
    T old, next;                                                              \
    __atomic_load(p, &old, __ATOMIC_RELAXED);                                 \
    if (counts && std::is_unsigned<T>::value && old == T(-1))                 \
      nogpu::unwritten(p, site);                                              \
    if (counts) nogpu::read(*p, site);                                        \
    do next = T(result);                                                      \
    while (!__atomic_compare_exchange(p, &old, &next, true, __ATOMIC_RELAXED, \
                                      __ATOMIC_RELAXED));                     \
    return old;                                                               \
  }
ATOMIC(atomicAdd, true, old + v) ATOMIC(atomicSub, true, old - v)
ATOMIC(atomicMin, false, v < old ? v : old)
ATOMIC(atomicMax, false, v > old ? v : old)
ATOMIC(atomicExch, false, v) ATOMIC(atomicAnd, false, old & v)
ATOMIC(atomicOr, false, old | v) ATOMIC(atomicXor, false, old ^ v)
ATOMIC(atomicInc, true, old >= v ? 0 : old + 1)
ATOMIC(atomicDec, true, old == 0 || old > v ? v : old - 1)
template <class T, class C, class V>
T atomicCAS(T* p, C compare, V value) {
  T old = T(compare), next = T(value);
  __atomic_compare_exchange(p, &old, &next, false, __ATOMIC_RELAXED,
                            __ATOMIC_RELAXED);
  return old;
}
#define LOAD(name)                                                            \
  template <class T> T name(const T* p, NOGPU_SITE) {                         \
    return nogpu::read(*p, site); }
#define STORE(name)                                                           \
  template <class T> void name(T* p, T v, NOGPU_SITE) {                       \
    nogpu::aligned(p, site), *p = v; }
LOAD(__ldg) LOAD(__ldca) LOAD(__ldcg) LOAD(__ldcs) LOAD(__ldcv) LOAD(__ldlu)
STORE(__stwb) STORE(__stwt) STORE(__stcg) STORE(__stcs)

// Built with -ffp-contract=off: each operation rounds by itself.
#define MIN_MAX(R, A, B)                                                      \
  inline R min(A a, B b) { return R(b) < R(a) ? R(b) : R(a); }                \
  inline R max(A a, B b) { return R(a) < R(b) ? R(b) : R(a); }
#define FMIN_FMAX(R, A, B)                                                    \
  inline R min(A a, B b) { return std::fmin(R(a), R(b)); }                    \
  inline R max(A a, B b) { return std::fmax(R(a), R(b)); }
using nogpu_ulong = unsigned long;
using nogpu_llong = long long;
using nogpu_ullong = unsigned long long;
MIN_MAX(int, int, int) MIN_MAX(unsigned, unsigned, unsigned)
MIN_MAX(unsigned, int, unsigned) MIN_MAX(unsigned, unsigned, int)
MIN_MAX(long, long, long) MIN_MAX(nogpu_ulong, nogpu_ulong, nogpu_ulong)
MIN_MAX(nogpu_llong, nogpu_llong, nogpu_llong)
MIN_MAX(nogpu_ullong, nogpu_ullong, nogpu_ullong)
FMIN_FMAX(float, float, float) FMIN_FMAX(double, double, double)
FMIN_FMAX(double, float, double) FMIN_FMAX(double, double, float)
#define F(R, name, A, value) inline R name(A a) { return value; }
#define FF(T, name, value) inline T name(T a, T b) { return value; }
#define FFF(T, name, value) inline T name(T a, T b, T c) { return value; }
FF(float, __fadd_rn, a + b) FF(double, __dadd_rn, a + b)
FF(float, __fsub_rn, a - b) FF(double, __dsub_rn, a - b)
FF(float, __fmul_rn, a * b) FF(double, __dmul_rn, a * b)
FF(float, __fdiv_rn, a / b) FF(double, __ddiv_rn, a / b)
FF(float, __fdividef, a / b) FFF(float, __fmaf_rn, __builtin_fmaf(a, b, c))
FFF(double, __fma_rn, __builtin_fma(a, b, c))
F(float, __fsqrt_rn, float, sqrtf(a)) F(double, __dsqrt_rn, double, sqrt(a))
F(float, __frcp_rn, float, 1 / a) F(float, rsqrtf, float, 1 / sqrtf(a))
F(float, __frsqrt_rn, float, float(1 / sqrt(double(a))))
F(double, rsqrt, double, 1 / sqrt(a))
F(float, __saturatef, float, a > 0 ? fminf(a, 1) : 0)
F(int, __float2int_rn, float, nogpu::convert<int>(rintf(a)))
F(int, __float2int_rz, float, nogpu::convert<int>(truncf(a)))
F(int, __float2int_rd, float, nogpu::convert<int>(floorf(a)))
F(int, __float2int_ru, float, nogpu::convert<int>(ceilf(a)))
F(unsigned, __float2uint_rn, float, nogpu::convert<unsigned>(rintf(a)))
F(unsigned, __float2uint_rz, float, nogpu::convert<unsigned>(truncf(a)))
F(float, __int2float_rn, int, float(a))
F(float, __uint2float_rn, unsigned, float(a))
F(int, __float_as_int, float, nogpu::bits<int>(a))
F(unsigned, __float_as_uint, float, nogpu::bits<unsigned>(a))
F(float, __int_as_float, int, nogpu::bits<float>(a))
F(float, __uint_as_float, unsigned, nogpu::bits<float>(a))
F(int, __popc, unsigned, __builtin_popcount(a))
F(int, __ffs, int, __builtin_ffs(a))
F(int, __clz, int, a ? __builtin_clz(a) : 32)
FF(int, __mul24, a * b) FF(unsigned, __umulhi, uint64_t(a) * b >> 32)
    #define DOT(T, Half, Byte)                                                    \
  inline T __dp2a_lo(T a, T b, T c) {                                         \
    return unsigned(c) + Half(a) * Byte(b) + Half(a >> 16) * Byte(b >> 8);    \
  }                                                                           \
  inline T __dp2a_hi(T a, T b, T c) { return __dp2a_lo(a, b >> 16, c); }      \
  inline T __dp4a(T a, T b, T c) {                                            \
    for (int i = 0; i < 32; i += 8)                                           \
      c = unsigned(c) + Byte(a >> i) * Byte(b >> i);                          \
    return c;                                                                 \
  }
DOT(int, int16_t, int8_t) DOT(unsigned, uint16_t, uint8_t)
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

// ----------------------------------------------------------- what is not here
#define MISSING(name)                                                          \
  template <class... T>                                                        \
  cudaError_t name(T&&...) {                                                   \
    static_assert(sizeof...(T) > 99, #name " is not supported without a GPU"); \
    return cudaErrorNotSupported;                                              \
  }
MISSING(cudaMallocManaged)
MISSING(cudaMemPrefetchAsync)
MISSING(cudaMallocArray)
MISSING(cudaCreateTextureObject)
MISSING(tex2D)
MISSING(cudaStreamBeginCapture)
MISSING(cudaGraphCreate)
MISSING(cudaGraphLaunch)
MISSING(cudaLaunchKernel)
MISSING(cudaLaunchCooperativeKernel)
#undef VECTOR
#undef COPIED
#undef ERRORS
#undef API
#undef STREAM_API
#undef ATTRIBUTES
#undef VOTE
#undef SHUFFLE
#undef ATOMIC
#undef LOAD
#undef STORE
#undef MIN_MAX
#undef FMIN_FMAX
#undef F
#undef FF
#undef FFF
#undef DOT
#undef MISSING
