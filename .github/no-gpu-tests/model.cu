// CUDA's error model and its streams, as the CPU emulation keeps them. Plain
// CUDA, but the second half asks for more than a GPU promises: that work runs
// as late as the program's own waiting allows, so that a missing wait shows.
// SPDX-License-Identifier: MIT
#include <cstdio>
#include <cstring>
#include <vector>

int failures = 0;
#define EXPECT(condition)                                        \
  do {                                                           \
    if (!(condition)) {                                          \
      printf("model.cu:%d: not so: %s\n", __LINE__, #condition); \
      ++failures;                                                \
    }                                                            \
  } while (0)
#define OK(call) EXPECT((call) == cudaSuccess)
// A call that fails with this error, which is then the last error, once.
#define FAILS(error, call)                  \
  do {                                      \
    EXPECT((call) == error);                \
    EXPECT(cudaPeekAtLastError() == error); \
    EXPECT(cudaGetLastError() == error);    \
    OK(cudaGetLastError());                 \
  } while (0)
// A launch that is refused: the error is found afterwards.
#define REFUSED(error, ...)              \
  do {                                   \
    __VA_ARGS__;                         \
    EXPECT(cudaGetLastError() == error); \
    OK(cudaGetLastError());              \
    OK(cudaDeviceSynchronize());         \
  } while (0)

__constant__ int cValue[4];
__global__ void nothing() {}
__global__ void add(int* p, int by) {
  p[threadIdx.x] += by;
}
__global__ void copyInts(const int* in, int* out) {
  out[threadIdx.x] = in[threadIdx.x];
}
__global__ void readConstant(int* out) {
  *out = cValue[0];
}

void errorModel() {
  const cudaError_t configuration = cudaErrorInvalidConfiguration;
  REFUSED(configuration, nothing<<<1, 1025>>>());
  REFUSED(configuration, nothing<<<1, dim3(32, 33)>>>());
  REFUSED(configuration, nothing<<<1, dim3(1, 1, 65)>>>());
  REFUSED(configuration, nothing<<<0, 1>>>());
  REFUSED(configuration, nothing<<<1, 0>>>());
  REFUSED(configuration, nothing<<<dim3(1, 65536), 1>>>());
  REFUSED(configuration, nothing<<<dim3(1, 1, 65536), 1>>>());
  REFUSED(configuration, nothing<<<2147483648u, 1>>>());
  REFUSED(cudaErrorInvalidValue, nothing<<<1, 1, 49153>>>());
  nothing<<<dim3(1, 65535), 1, 49152>>>();
  nothing<<<dim3(2, 1, 65535), 1>>>();
  nothing<<<1, dim3(1, 16, 64)>>>();
  OK(cudaGetLastError());
  FAILS(cudaErrorInvalidValue,
        cudaFuncSetAttribute(
            nothing, cudaFuncAttributeMaxDynamicSharedMemorySize, 1 << 20));
  OK(cudaFuncSetAttribute(nothing, cudaFuncAttributeMaxDynamicSharedMemorySize,
                          65536));
  nothing<<<1, 1, 65536>>>();
  OK(cudaDeviceSynchronize());
  REFUSED(cudaErrorInvalidValue, nothing<<<1, 1, 65537>>>());
  REFUSED(cudaErrorInvalidValue, add<<<1, 1, 65536>>>(nullptr, 1));

  // Memory: direction, size, who owns it.
  const cudaError_t invalid = cudaErrorInvalidValue;
  const cudaMemcpyKind up = cudaMemcpyHostToDevice,
                       down = cudaMemcpyDeviceToHost;
  int *d = nullptr, *e = nullptr, h[64] = {}, *huge = nullptr;
  OK(cudaMalloc(&d, sizeof h));
  OK(cudaMalloc(&e, sizeof h));
  OK(cudaMemcpy(d, h, sizeof h, up));
  FAILS(invalid, cudaMemcpy(d, h, sizeof h, down));
  FAILS(invalid, cudaMemcpy(h, d, sizeof h, up));
  FAILS(invalid, cudaMemcpy(d, e, sizeof h, up));
  FAILS(invalid, cudaMemcpy(h, h + 1, 4, down));
  FAILS(invalid, cudaMemcpy(h, d, 4, cudaMemcpyDeviceToDevice));
  FAILS(invalid, cudaMemcpy(d, h, 4, cudaMemcpyHostToHost));
  FAILS(cudaErrorInvalidMemcpyDirection,
        cudaMemcpy(d, h, 4, static_cast<cudaMemcpyKind>(7)));
  FAILS(invalid, cudaMemcpy(d, h, sizeof h + 1, up));
  FAILS(invalid, cudaMemcpy(d + 1, h, sizeof h, up));
  FAILS(invalid, cudaMemcpy(h, d + 63, 8, down));
  FAILS(invalid, cudaMemcpy(nullptr, h, 4, up));
  FAILS(invalid, cudaMemset(d + 60, 0, 32));
  FAILS(invalid, cudaMemset(h, 0, 4));
  FAILS(invalid, cudaMemcpyToSymbol(cValue, h, 20));
  FAILS(invalid, cudaMemcpyToSymbol(cValue, h, 8, 12));
  FAILS(cudaErrorInvalidPitchValue, cudaMemcpy2D(d, 4, h, 8, 8, 2, up));
  FAILS(invalid, cudaMemcpy2D(d, 128, h, 8, 8, 3, up));
  OK(cudaMemcpy(h, d, sizeof h, cudaMemcpyDefault));
  OK(cudaMemcpy(d, nullptr, 0, up));
  FAILS(invalid, cudaFree(h));
  FAILS(invalid, cudaFree(d + 1));
  FAILS(invalid, cudaFreeHost(d));
  OK(cudaFree(d));
  FAILS(invalid, cudaFree(d));
  FAILS(invalid, cudaMemcpy(d, h, 4, up));
  FAILS(invalid, cudaMemcpy(h, d, 4, down));
  FAILS(cudaErrorMemoryAllocation, cudaMalloc(&huge, size_t{1} << 50));
  EXPECT(huge == nullptr);
  OK(cudaMalloc(&huge, 0));
  OK(cudaFree(huge));
  OK(cudaFree(e));

  // Handles.
  cudaStream_t stream;
  cudaEvent_t event, other;
  OK(cudaStreamCreate(&stream));
  OK(cudaStreamDestroy(stream));
  FAILS(cudaErrorInvalidResourceHandle, cudaStreamSynchronize(stream));
  REFUSED(cudaErrorInvalidResourceHandle, nothing<<<1, 1, 0, stream>>>());
  OK(cudaEventCreate(&event));
  OK(cudaEventCreateWithFlags(&other, cudaEventDisableTiming));
  OK(cudaEventQuery(event));
  float ms = -1.0f;
  FAILS(cudaErrorInvalidResourceHandle,
        cudaEventElapsedTime(&ms, event, event));
  OK(cudaEventRecord(event));
  OK(cudaEventRecord(other));
  OK(cudaDeviceSynchronize());
  FAILS(cudaErrorInvalidResourceHandle,
        cudaEventElapsedTime(&ms, event, other));
  // No times without NOGPU_TIMING; the program goes on.
  const cudaError_t timed = cudaEventElapsedTime(&ms, event, event);
  printf("timing: %s\n",
         timed == cudaSuccess ? "yes" : cudaGetErrorName(timed));
  OK(cudaGetLastError());
  OK(cudaEventDestroy(event));
  OK(cudaEventDestroy(other));
  FAILS(cudaErrorInvalidResourceHandle, cudaEventRecord(event));
  EXPECT(!strcmp(cudaGetErrorName(cudaErrorInvalidValue),
                 "cudaErrorInvalidValue"));
  EXPECT(!strcmp(cudaGetErrorString(cudaErrorNoDevice),
                 "no CUDA-capable device is detected"));
  EXPECT(!strcmp(cudaGetErrorString(static_cast<cudaError_t>(12345)),
                 "unrecognized error code"));
}

// ------------------------------------------------------------------- streams

struct Rig {
  cudaStream_t a, b, free;
  cudaEvent_t event;
  int *d_x, *d_y, *pinned;
  Rig() {
    OK(cudaStreamCreate(&a));
    OK(cudaStreamCreate(&b));
    OK(cudaStreamCreateWithFlags(&free, cudaStreamNonBlocking));
    OK(cudaEventCreate(&event));
    OK(cudaMalloc(&d_x, 16));
    OK(cudaMalloc(&d_y, 16));
    OK(cudaMallocHost(&pinned, 16));
    OK(cudaMemset(d_x, 0, 16));
    OK(cudaMemset(d_y, 0, 16));
    OK(cudaDeviceSynchronize());
    *pinned = 1;
  }
  ~Rig() {
    OK(cudaStreamDestroy(a));
    OK(cudaStreamDestroy(b));
    OK(cudaStreamDestroy(free));
    OK(cudaEventDestroy(event));
    OK(cudaFree(d_x));
    OK(cudaFree(d_y));
    OK(cudaFreeHost(pinned));
  }
  int get(const int* p) {
    int v = -1;
    OK(cudaMemcpy(&v, p, 4, cudaMemcpyDeviceToHost));
    return v;
  }
};
void CUDART_CB setSeven(void* p) {
  *static_cast<int*>(p) = 7;
}

void streams() {
  const cudaMemcpyKind up = cudaMemcpyHostToDevice,
                       down = cudaMemcpyDeviceToHost;
  {  // A pinned buffer is read when the copy runs: refilled too early, it
     // shows.
    Rig r;
    OK(cudaMemcpyAsync(r.d_x, r.pinned, 4, up, r.a));
    *r.pinned = 2;
    OK(cudaStreamSynchronize(r.a));
    EXPECT(r.get(r.d_x) == 2);
    OK(cudaMemcpyAsync(r.d_x, r.pinned, 4, up, r.a));
    OK(cudaStreamSynchronize(r.a));
    *r.pinned = 3;
    EXPECT(r.get(r.d_x) == 2);
    // And written when the copy runs: looked at too early, it shows.
    OK(cudaMemcpyAsync(r.pinned, r.d_x, 4, down, r.a));
    EXPECT(*r.pinned == 3);
    OK(cudaStreamSynchronize(r.a));
    EXPECT(*r.pinned == 2);
    OK(cudaMemcpyAsync(r.pinned, r.d_y, 4, down));  // the default stream too
    EXPECT(*r.pinned == 2);
    OK(cudaStreamSynchronize(nullptr));
    EXPECT(*r.pinned == 0);
  }
  {  // Pageable memory is staged, or waited for.
    Rig r;
    int h = 1;
    OK(cudaMemcpyAsync(r.d_x, &h, 4, up, r.a));
    h = 2;
    OK(cudaMemcpyAsync(&h, r.d_x, 4, down, r.a));
    EXPECT(h == 1);
  }
  {  // Arguments are copied at the launch; in one stream work keeps its order.
    Rig r;
    int by = 5;
    add<<<1, 1, 0, r.a>>>(r.d_x, by);
    by = 100;
    add<<<1, 1, 0, r.a>>>(r.d_x, 1);
    OK(cudaMemcpyAsync(r.pinned, r.d_x, 4, down, r.a));
    EXPECT(*r.pinned == 1);
    OK(cudaStreamSynchronize(r.a));
    EXPECT(*r.pinned == 6);
  }
  {  // Two streams without an event have no order: the later work runs first.
    Rig r;
    add<<<1, 1, 0, r.a>>>(r.d_x, 5);
    copyInts<<<1, 1, 0, r.b>>>(r.d_x, r.d_y);
    OK(cudaDeviceSynchronize());
    EXPECT(r.get(r.d_y) == 0);
    // With one they have, and the wait alone brings the work it needs.
    add<<<1, 1, 0, r.a>>>(r.d_x, 5);
    OK(cudaEventRecord(r.event, r.a));
    add<<<1, 1, 0, r.a>>>(r.d_x, 100);
    OK(cudaStreamWaitEvent(r.b, r.event, 0));
    copyInts<<<1, 1, 0, r.b>>>(r.d_x, r.d_y);
    OK(cudaStreamSynchronize(r.b));
    EXPECT(r.get(r.d_y) == 10);
    EXPECT(r.get(r.d_x) == 110);
  }
  {  // The wrong buffer's event: a wait for an older record is no wait.
    Rig r;
    OK(cudaEventRecord(r.event, r.a));
    add<<<1, 1, 0, r.a>>>(r.d_x, 5);
    OK(cudaEventSynchronize(r.event));
    OK(cudaMemcpyAsync(r.pinned, r.d_x, 4, down, r.free));
    OK(cudaStreamSynchronize(r.free));
    EXPECT(*r.pinned == 0);
    OK(cudaEventRecord(r.event, r.a));
    OK(cudaEventSynchronize(r.event));
    OK(cudaMemcpyAsync(r.pinned, r.d_x, 4, down, r.free));
    OK(cudaStreamSynchronize(r.free));
    EXPECT(*r.pinned == 5);
  }
  {  // The default stream keeps order with blocking streams, both ways.
    Rig r;
    add<<<1, 1, 0, r.a>>>(r.d_x, 5);
    copyInts<<<1, 1>>>(r.d_x, r.d_y);
    add<<<1, 1, 0, r.b>>>(r.d_y, 1);
    OK(cudaStreamSynchronize(r.b));
    EXPECT(r.get(r.d_y) == 6);
    // A non-blocking stream does not.
    add<<<1, 1, 0, r.free>>>(r.d_x, 5);
    EXPECT(r.get(r.d_x) == 5);
    OK(cudaStreamSynchronize(r.free));
    EXPECT(r.get(r.d_x) == 10);
  }
  {  // A loop that polls comes to its end.
    Rig r;
    for (int i = 0; i < 10; ++i) add<<<1, 1, 0, r.a>>>(r.d_x, 1);
    OK(cudaEventRecord(r.event, r.a));
    EXPECT(cudaStreamQuery(r.a) == cudaErrorNotReady);
    OK(cudaGetLastError());
    int polls = 1;
    while (cudaEventQuery(r.event) == cudaErrorNotReady) ++polls;
    EXPECT(polls > 1);
    OK(cudaStreamQuery(r.a));
    EXPECT(r.get(r.d_x) == 10);
  }
  {  // Symbols, memset, host functions, memory freed in use.
    Rig r;
    int seven = 0, *d_free = nullptr;
    const int value = 42;
    OK(cudaMemcpyToSymbol(cValue, &value, 4));
    readConstant<<<1, 1, 0, r.a>>>(r.d_x);
    OK(cudaMemsetAsync(r.d_y, 0xFF, 16, r.a));
    OK(cudaLaunchHostFunc(r.a, setSeven, &seven));
    EXPECT(seven == 0);
    OK(cudaStreamSynchronize(r.a));
    EXPECT(seven == 7 && r.get(r.d_x) == 42 && r.get(r.d_y) == -1);
    OK(cudaMallocAsync(&d_free, 16, r.a));
    OK(cudaMemsetAsync(d_free, 0, 16, r.a));
    add<<<1, 4, 0, r.a>>>(d_free, 9);
    OK(cudaMemcpyAsync(r.pinned, d_free, 16, down, r.a));
    OK(cudaFreeAsync(d_free, r.a));
    OK(cudaStreamSynchronize(r.a));
    EXPECT(r.pinned[3] == 9);
  }
}

int main() {
  errorModel();
  streams();
  printf("%s\n", failures ? "FAILED" : "all as expected");
  return failures ? 1 : 0;
}
