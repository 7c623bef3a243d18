// One programming mistake, named by the argument. The emulation has to say what
// a GPU would not: the kernel, the block, how many threads, and the line.
// Exit code: 0 nothing found, 1 wrong answer, 3 a CUDA error, 2 no such
// mistake. SPDX-License-Identifier: MIT
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

constexpr int kRows = 40, kCols = 70, kTile = 32;  // 2 x 3 tiles, cut off

__global__ void returnsEarly(const float* in, float* out) {
  __shared__ float s_tile[kTile][kTile];
  const int row = static_cast<int>(blockIdx.y * kTile + threadIdx.y);
  const int col = static_cast<int>(blockIdx.x * kTile + threadIdx.x);
  if (row >= kRows || col >= kCols) return;
  s_tile[threadIdx.y][threadIdx.x] = in[row * kCols + col];
  __syncthreads();  // here: returns
  out[row * kCols + col] = s_tile[threadIdx.y][threadIdx.x];
}
__global__ void barrierInLoop(float* out) {
  __shared__ float s_tile[36 * 36];
  for (unsigned i = threadIdx.y * 32 + threadIdx.x; i < 36 * 36; i += 1024) {
    s_tile[i] = 1.0f;
    __syncthreads();  // here: loop
  }
  __syncthreads();  // here: after
  out[threadIdx.y * 32 + threadIdx.x] = s_tile[threadIdx.x];
}
__global__ void barrierInBranch(float* out) {
  if (threadIdx.x < 10)
    __syncthreads();  // here: branch
  else if (threadIdx.x < 90)
    __syncthreads();  // here: other
  out[threadIdx.x] = 1.0f;
}
__global__ void reversesTwice(float* out, bool barriers) {
  __shared__ float s_a[256], s_b[256];
  const unsigned t = threadIdx.x, u = 255 - t;
  s_a[t] = static_cast<float>(t);
  __syncthreads();
  s_b[t] = s_a[u];
  if (barriers) __syncthreads();
  out[t] = s_b[u];
}
// The missing barrier shows only where a thread reads what a later one writes.
__global__ void readsTheLeft(float* out) {
  __shared__ float s_a[256];
  s_a[threadIdx.x] = 1.0f;
  const unsigned left = threadIdx.x == 0 ? 0 : threadIdx.x - 1;
  out[blockIdx.x * 256 + threadIdx.x] = s_a[left];
}
__global__ void readsUnset(float* out) {
  __shared__ float s_a[64], s_b;
  if (threadIdx.x != 5) s_a[threadIdx.x] = 0.0f;
  if (threadIdx.x == 64) s_b = 0.0f;
  __syncthreads();
  out[threadIdx.x] = s_a[threadIdx.x] + s_b;  // here: shared-unset
}
__global__ void countsUnset(float* out) {
  __shared__ unsigned s_bins[4];
  __shared__ float s_sum;
  __syncthreads();
  atomicAdd(&s_sum, 1.0f);                  // here: sum-unset
  atomicAdd(&s_bins[threadIdx.x % 3], 1u);  // here: counter-unset
  __syncthreads();
  out[threadIdx.x] = static_cast<float>(s_bins[threadIdx.x % 3]);
}
__global__ void copies(const float* in, float* out, int n) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) out[i] = in[i];  // here: device-unset
}
__global__ void laneReturns(int* out) {
  const int t = static_cast<int>(threadIdx.x);
  if (t == 37) return;
  out[t] = __shfl_down_sync(0xffffffffu, t, 1);  // here: lane-returns
}
__global__ void laneElsewhere(int* out) {
  const int t = static_cast<int>(threadIdx.x);
  if (t < 8)
    out[t] = __shfl_sync(0xffffffffu, t, 0);  // here: lane-elsewhere
  else
    out[t] = __shfl_sync(0xffffffffu, t, 1);  // here: those
}
__global__ void laneAtBarrier(int* out) {
  const int t = static_cast<int>(threadIdx.x);
  if (t < 31) out[t] = __any_sync(0xffffffffu, t);  // here: lane-barrier
  __syncthreads();
}
__global__ void notInMask(int* out) {
  out[threadIdx.x] = __shfl_sync(0x0000ffffu, 1, 0);  // here: not-in-mask
}
__global__ void readsOutsideMask(int* out) {
  if (threadIdx.x < 16)
    out[threadIdx.x] = __shfl_sync(0xffffu, 1, 20);  // here: outside-mask
}
__global__ void shortWarp(int* out) {
  out[threadIdx.x] = __shfl_xor_sync(0xffffffffu, 1, 1);  // here: short-warp
}
__global__ void readsBehind(const float* in, float* out, int by) {
  out[threadIdx.x] = in[static_cast<int>(threadIdx.x) + by];  // here: behind
}
__global__ void writesShared(float* out, int by) {
  __shared__ float s_a[30], s_b[34];
  s_b[threadIdx.x] = 0.0f;
  s_a[static_cast<int>(threadIdx.x) + by] = 1.0f;  // here: shared-bounds
  out[threadIdx.x] = s_b[threadIdx.x] + s_a[0];
}
__global__ void writesDynamic(float* out) {
  extern __shared__ float s[];
  s[threadIdx.x] = 1.0f;  // here: dynamic-bounds
  out[threadIdx.x] = s[threadIdx.x];
}
__global__ void vectorLoad(const float* in, float4* out, int by) {
  const float4* vectors = reinterpret_cast<const float4*>(in + by);
  out[threadIdx.x] = vectors[threadIdx.x];  // here: misaligned
}
__global__ void divides(int* out, int by) {
  out[threadIdx.x] = 7 / by;  // here: divide
}
__global__ void launches(float* out) {
#ifndef __CUDA_ARCH__
  copies<<<1, 1>>>(out, out + 1, 1);  // here: launch
#endif
  out[0] = 1.0f;
}
__global__ void muchShared(float* out) {
  __shared__ float s_a[6000], s_b[200];  // here: much-shared
  s_a[threadIdx.x] = s_b[threadIdx.x] = 1.0f;
  extern __shared__ float s[];
  s[threadIdx.x] = 1.0f;
  out[threadIdx.x] = s_a[threadIdx.x] + s_b[threadIdx.x] + s[threadIdx.x];
}

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  const size_t n = 4096;
  float *d_in = nullptr, *d_out = nullptr;
  int* d_int = nullptr;
  cudaMalloc(&d_in, n * sizeof(float));
  cudaMalloc(&d_out, n * sizeof(float));
  cudaMalloc(&d_int, n * sizeof(int));
  std::vector<float> h(n, 1.0f), want;
  cudaMemcpy(d_in, h.data(), n * sizeof(float), cudaMemcpyHostToDevice);
  cudaMemset(d_out, 0, n * sizeof(float));
  const dim3 tile(kTile, kTile);
  if (what == "returns")
    returnsEarly<<<dim3(3, 2), tile>>>(d_in, d_out);
  else if (what == "loop")
    barrierInLoop<<<1, tile>>>(d_out);
  else if (what == "branch")
    barrierInBranch<<<2, 100>>>(d_out);
  else if (what == "missing" || what == "present") {
    reversesTwice<<<3, 256>>>(d_out, what == "present");
    for (int i = 0; i < 256; ++i) want.push_back(static_cast<float>(i));
  } else if (what == "left") {
    readsTheLeft<<<16, 256>>>(d_out);
    want.assign(n, 1.0f);
  } else if (what == "shared-unset") {
    readsUnset<<<1, 64>>>(d_out);
    want.assign(64, 0.0f);
  } else if (what == "device-unset") {
    float* d_new = nullptr;
    cudaMalloc(&d_new, 64 * sizeof(float));
    copies<<<4, 16>>>(d_new, d_out, 64);
    want.assign(64, 0.0f);
  } else if (what == "half-unset") {  // the last two blocks read it, and more
    float* d_new = nullptr;
    cudaMalloc(&d_new, 64 * sizeof(float));
    cudaMemset(d_new, 0, 30 * sizeof(float));
    copies<<<4, 16>>>(d_new, d_out, 64);
    want.assign(64, 0.0f);
  } else if (what == "counter-unset") {
    countsUnset<<<1, 66>>>(d_out);
    want.assign(66, 22.0f);
  } else if (what == "vector-unset") {
    float* d_new = nullptr;
    cudaMalloc(&d_new, 32 * sizeof(float));
    cudaMemset(d_new, 0, 31 * sizeof(float));
    vectorLoad<<<1, 8>>>(d_new, reinterpret_cast<float4*>(d_out), 0);
    want.assign(32, 0.0f);
  } else if (what == "in-place") {
    copies<<<1, 64>>>(d_out, d_out, 64);  // here: in-place
  } else if (what == "host") {
    copies<<<1, 64>>>(h.data(), d_out, 64);  // here: host
  } else if (what == "freed") {
    cudaFree(d_in);
    copies<<<1, 64>>>(d_in, d_out, 64);  // here: freed
  } else if (what == "lane-returns")
    laneReturns<<<1, 64>>>(d_int);
  else if (what == "lane-elsewhere")
    laneElsewhere<<<1, 32>>>(d_int);
  else if (what == "lane-barrier")
    laneAtBarrier<<<1, 32>>>(d_int);
  else if (what == "not-in-mask")
    notInMask<<<1, 32>>>(d_int);
  else if (what == "outside-mask")
    readsOutsideMask<<<1, 32>>>(d_int);
  else if (what == "short-warp")
    shortWarp<<<1, 20>>>(d_int);
  else if (what == "behind")
    readsBehind<<<1, 64>>>(d_in, d_out, 4090);
  else if (what == "before")
    readsBehind<<<1, 64>>>(d_in, d_out, -1);
  else if (what == "far")
    readsBehind<<<dim3(2), 64>>>(d_in, d_out, 4096 * 16);
  else if (what == "shared-bounds")
    writesShared<<<1, 31>>>(d_out, 0);
  else if (what == "shared-before")
    writesShared<<<1, 30>>>(d_out, -1);
  else if (what == "dynamic-bounds")
    writesDynamic<<<1, 32, 124>>>(d_out);
  else if (what == "dynamic-none")
    writesDynamic<<<1, 32>>>(d_out);
  else if (what == "misaligned")
    vectorLoad<<<1, 8>>>(d_in, reinterpret_cast<float4*>(d_out), 2);
  else if (what == "divide")
    divides<<<dim3(2, 2), 8>>>(d_int, 0);
  else if (what == "launch")
    launches<<<1, 1>>>(d_out);
  else if (what == "much-shared")
    muchShared<<<1, 32, 40000>>>(d_out);
  else if (what == "big-block")
    copies<<<1, 1025>>>(d_in, d_out, 1);  // here: big-block
  else if (what == "tall-grid")
    copies<<<dim3(1, 65536), 1>>>(d_in, d_out, 1);  // here: tall-grid
  else if (what == "dynamic-much")
    copies<<<1, 1, 49153>>>(d_in, d_out, 1);  // here: dynamic-much
  else
    return 2;

  cudaError_t error = cudaGetLastError();
  if (error == cudaSuccess) error = cudaDeviceSynchronize();
  if (error != cudaSuccess) {
    const cudaError_t again = cudaMemset(d_out, 0, 4);
    printf("%s, %s\n", cudaGetErrorName(error),
           again == error ? "and it stays" : "and it passes");
    return 3;
  }
  h.resize(want.size());
  if (cudaMemcpy(h.data(), d_out, h.size() * sizeof(float),
                 cudaMemcpyDeviceToHost) != cudaSuccess)
    return 3;
  size_t wrong = 0;
  for (size_t i = 0; i < want.size(); ++i) wrong += !(h[i] == want[i]);
  if (wrong) printf("%zu of %zu values are wrong\n", wrong, want.size());
  return wrong ? 1 : 0;
}
