// What the CPU emulation of exercises/no-gpu supports, each feature with its
// result checked. It is plain CUDA: nvcc builds it and a GPU passes it too,
// except for the lines that --gpu leaves out.
//   sh exercises/no-gpu/nvcc -o features features.cu && ./features
// SPDX-License-Identifier: MIT
#include <cuda_runtime.h>

#include <cmath>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "kernels.cuh"

int failures = 0;
#define EXPECT(condition)                                           \
  do {                                                              \
    if (!(condition)) {                                             \
      printf("features.cu:%d: not so: %s\n", __LINE__, #condition); \
      ++failures;                                                   \
    }                                                               \
  } while (0)
#define OK(call) EXPECT((call) == cudaSuccess)

// A device array that starts as the bytes 0xFF and copies itself back.
template <class T>
struct Array {
  T* d = nullptr;
  size_t n;
  explicit Array(size_t count) : n(count) {
    OK(cudaMalloc(&d, n * sizeof(T)));
    OK(cudaMemset(d, 0xFF, n * sizeof(T)));
  }
  ~Array() { OK(cudaFree(d)); }
  operator T*() const { return d; }
  std::vector<T> host() const {
    std::vector<T> h(n);
    OK(cudaMemcpy(h.data(), d, n * sizeof(T), cudaMemcpyDeviceToHost));
    OK(cudaGetLastError());
    return h;
  }
  bool is(T value) const {
    for (T v : host())
      if (!(v == value)) return false;
    return true;
  }
};

// ------------------------------------------------------------------ launches

__global__ void ids(uint3* out, dim3* shape) {
  const unsigned block =
      (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  const unsigned thread =
      (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  const unsigned size = blockDim.x * blockDim.y * blockDim.z;
  out[block * size + thread] =
      make_uint3(blockIdx.x * 100 + threadIdx.x, blockIdx.y * 100 + threadIdx.y,
                 blockIdx.z * 100 + threadIdx.z);
  shape[0] = gridDim;
  shape[1] = blockDim;
}
__global__ void one(int* out) {
  *out = 1;
}
__global__ void __launch_bounds__(64) two(int* out, const int value) {
  out[threadIdx.x] = value;
}
template <int N, class T = float>
__global__ void partly(T* out, T v) {
  out[threadIdx.x] = v * N;
}
template <class... T>
__global__ void sum(int* out, T... v) {
  *out = static_cast<int>((v + ...));
}
template <class F>
__global__ void apply(int* out, F f) {
  out[threadIdx.x] = f(static_cast<int>(threadIdx.x));
}
template <bool Square>
struct Power {
  int by;
  __device__ int operator()(int i) const {
    return Square ? i * i * by : i * by;
  }
};
struct Pair {
  int a, b;
};
__global__ void byValue(int* out, Pair p, size_t wide) {
  p.a += 1;  // a copy of one's own
  out[threadIdx.x] = p.a * 10 + p.b + static_cast<int>(wide >> 40);
}
template <int N>
void fromTemplate(int* out) {
  partly<N><<<1, 4>>>(out, 5);
  partly<(N > 2 ? N : 2), int><<<dim3(1), dim3{4}>>>(out, 5);
}
#define LAUNCH(kernel, threads, ...) kernel<<<1, threads>>>(__VA_ARGS__)
#define RUN(k, ...)           \
  do {                        \
    k<<<1, 4>>>(__VA_ARGS__); \
  } while (0)

void launches() {
  Array<uint3> where(2 * 3 * 2 * 24);
  Array<dim3> shape(2);
  ids<<<dim3(2, 3, 2), dim3(4, 3, 2)>>>(where, shape);
  auto h = where.host();
  EXPECT(h.front().x == 0 && h.front().y == 0 && h.front().z == 0);
  EXPECT(h.back().x == 103 && h.back().y == 202 && h.back().z == 101);
  EXPECT(h[25].x == 101 && h[25].y == 0 && h[25].z == 0);
  EXPECT(shape.host()[0].y == 3 && shape.host()[1].z == 2);

  Array<int> out(4);
  one<<<1, 1>>>(out);
  EXPECT(out.host()[0] == 1);
  two<<<1, 4, 0>>>(out, 2);
  EXPECT(out.is(2));
  two<<<dim3(1, 1), 4, 100, 0>>>(out, 'a');  // a char becomes an int
  EXPECT(out.is('a'));
  two /* a < b */<<<  // grid, block
      1,              // one block: "<<<"
      4>>>(out, 3);
  EXPECT(out.is(3));
  partly<3><<<1, 4>>>(out.d, 5);
  EXPECT(out.is(15));
  partly<3, int><<<1, 4>>>(out, 6);
  EXPECT(out.is(18));
  Array<float> floats(4);
  partly<2><<<1, 4>>>(floats.d, 1.5f);
  EXPECT(floats.is(3.0f));
  fromTemplate<4>(out);
  EXPECT(out.is(20));
  sum<<<1, 1>>>(out.d, 1, 2L, 3.5);
  EXPECT(out.host()[0] == 6);
  deep::down::store<<<2, 2>>>(out.d, 9);
  EXPECT(out.is(9));
  ::deep::down::store<int><<<2, 2>>>(out, 8);
  EXPECT(out.is(8));
  void (*pointer)(int*, int) = two;
  pointer<<<1, 4>>>(out, 4);
  EXPECT(out.is(4));
  void (*table[])(int*, int) = {two, partly<7, int>};
  struct Entry {
    void (*kernel)(int*, int);
  } entry = {table[1]};
  table[1]<<<1, 4>>>(out, 1);
  EXPECT(out.is(7));
  (&entry)->kernel<<<1, 4>>>(out, 2);
  EXPECT(out.is(14));
  entry.kernel<<<1, 4>>>(out, 3);
  EXPECT(out.is(21));
  (failures < 0 ? one : one)<<<1, 1>>>(out);
  EXPECT(out.host()[0] == 1);
  apply<<<1, 4>>>(out.d, Power<true>{3});
  EXPECT(out.host()[3] == 27);
  const int plus = 2;
  apply<<<1, 4>>>(out.d, [=] __device__(int i) { return i + plus; });
  EXPECT(out.host()[3] == 5);
  const auto launch = [&](int by) { apply<<<1, 4>>>(out.d, Power<false>{by}); };
  launch(5);
  EXPECT(out.host()[3] == 15);
  LAUNCH(two, 4, out, 11);
  EXPECT(out.is(11));
  RUN(two, out, 12);
  EXPECT(out.is(12));
  if (failures >= 0)
    two<<<1, 4>>>(out, 13);
  else
    two<<<1, 4>>>(out, 14);
  EXPECT(out.is(13));
  for (int i = 1 << 2; i > 3; --i)
    byValue<<<1, i>>>(out, Pair{1, 2}, 1ull << 41);
  EXPECT(out.is(24));
}

// ------------------------------------------------------------- shared memory

__constant__ float cWeights[4];
__constant__ int cOne;
__device__ int dCounter;
__device__ float dTable[2][3];

constexpr int kSide = 8;
template <int N>
__global__ void manyShared(int* out) {
  __shared__ int s_a[N][N + 1], s_b, *s_pointer;
  __shared__ alignas(16) unsigned char s_bytes[(N > 4) ? 32 : 16];
  __shared__ __align__(8) float2 s_vectors[kSide /* rows */][2];
  volatile __shared__ int s_volatile[4];
  const int i = static_cast<int>(threadIdx.x);
  s_a[i][N - 1 - i] = i;
  if (i == 0) {
    s_b = 100;
    s_pointer = &s_a[0][0];
  }
  s_bytes[i] = static_cast<unsigned char>(i);
  s_vectors[i % kSide][i / kSide] = make_float2(1.0f, static_cast<float>(i));
  if (i < 4) s_volatile[i] = 1000;
  __syncthreads();
  out[i] = s_a[N - 1 - i][i] + s_b + s_bytes[N - 1 - i] +
           static_cast<int>(s_vectors[i % kSide][i / kSide].y) +
           s_volatile[i % 4] + (s_pointer == &s_a[0][0] ? 0 : 1);
}
__global__ void dynamicShared(float* out) {
  extern __shared__ float s[];
  s[blockDim.x - 1 - threadIdx.x] = static_cast<float>(threadIdx.x);
  __syncthreads();
  out[threadIdx.x] = s[threadIdx.x];
}
__global__ void dynamicRows(int* out) {
  extern __shared__ __align__(16) int s_rows[][4];
  s_rows[threadIdx.y][threadIdx.x] =
      static_cast<int>(threadIdx.y * 10 + threadIdx.x);
  __syncthreads();
  out[threadIdx.y * 4 + threadIdx.x] = s_rows[threadIdx.x][threadIdx.y];
}
// Two halves with one barrier between, 20 x 20 cells for 256 threads.
__global__ void apron(const float* in, float* out) {
  __shared__ float s_tile[20 * 20];
  for (unsigned i = threadIdx.x; i < 400; i += blockDim.x) s_tile[i] = in[i];
  __syncthreads();
  const unsigned r = threadIdx.x / 16, c = threadIdx.x % 16;
  float sum = 0.0f;
#pragma unroll
  for (unsigned y = 0; y < 5; ++y)
#pragma unroll 5
    for (unsigned x = 0; x < 5; ++x) sum += s_tile[(r + y) * 20 + c + x];
  out[threadIdx.x] = sum;
}
__global__ void weigh(float* out) {
  out[threadIdx.x] = cWeights[threadIdx.x] * static_cast<float>(cOne);
  if (threadIdx.x == 0) dCounter += 5;
  dTable[1][threadIdx.x % 3] = 2.5f;
}

// Places that are written, or of which a reference or an address is taken,
// before anybody reads them: the emulation must not call that a read. All of
// `out` and `vectors` starts as NaN.
struct Trio {
  float a, b[2];
};
template <class T, int N>
struct Both {
  T values[N];
};
__device__ float& second(float* p) {
  return p[1];
}
__device__ void put(float* __restrict__ p, float value) {
  *p = value;
}
__global__ void places(const float* in, float* out, float4* vectors) {
  __shared__ float s_one, s_many[2][3], s_row[4];
  __shared__ Trio s_pair;
  __shared__ Both<float, 2> s_both;
  __shared__ alignas(16) float s_wide[4];
  float *a, *b = out + 4, **c = &b;
  a = &out[0];
  a[0] = 1.0f;
  out[1] = out[2] = a[0];
  float& reference = out[3];
  reference = 2.0f;
  const float &first = in[0], *last = &in[3];
  (*c)[0] = first + *last;
  c[0][1] = -*b;
  second(b + 1) = 3.0f;
  put(b + 3, 4.0f);
  b[3] *= *b;
  ++b[3];
  int i = 0;
  out[8 + i++] = a[0] * *b;
  out[8 + i++] = in[static_cast<int>(in[1])];
  out[8 + i++] = b[0] > 0.0f && a[0] < 6.0f ? a[0] : b[0];
  vectors[0].x = 1.0f;
  vectors[0].y = vectors[0].x + 1.0f;
  *reinterpret_cast<float2*>(out + 12) = make_float2(5.0f, 6.0f);
  out[11] = reinterpret_cast<const float2*>(out)[6].y;
  Trio* pairs = reinterpret_cast<Trio*>(out + 16);
  pairs->a = 7.0f;
  pairs[0].b[1] = pairs[0].a;
  pairs[0].b[0] = pairs->b[1] + pairs[0].b[1];
  s_one = 8.0f;
  s_many[0][1] = s_one;
  s_pair.b[1] = s_many[0][1] + 1.0f;
  s_pair.a = s_one += s_pair.b[1];
  float* s = s_many[1];
  s[0] = static_cast<float>(sizeof s[0] * sizeof(s_one));
  put(&s_row[2], s_pair.a);
  put(s_row, s[0]);
  const auto sum = [&](const float* of) { return of[0] + of[2]; };
  s_both.values[0] = static_cast<float>(i);
  s_both.values[1] = s_both.values[i < 2 ? 1 : 0] + (i > 2 ? 1.0f : 0.0f);
  s_wide[i > 4 ? 1 : 0] = in[i < 4 ? i : 0] + in[i >= 4 || (1 << i) > 9];
  out[18] = s_one + s_wide[0] - s_both.values[i < 2];
#define AT(k) out[k]
  AT(14) = sum(s_row);
  AT(15) = AT(14);
}

void memory() {
  const float four[] = {1.0f, 2.0f, 3.0f, 4.0f};
  Array<float> ones(4), placed(20);
  Array<float4> vectors(1);
  OK(cudaMemcpy(ones, four, sizeof four, cudaMemcpyHostToDevice));
  places<<<1, 1>>>(ones, placed, vectors);
  const std::vector<float> want = {1, 1, 1, 2, 5,  -5, 3, 21, 5, 3,
                                   1, 6, 5, 6, 33, 33, 7, 14, 19};
  const auto got = placed.host();
  for (size_t i = 0; i < want.size(); ++i) EXPECT(got[i] == want[i]);
  EXPECT(vectors.host()[0].y == 2.0f);
  Array<int> out(16);
  manyShared<16><<<1, 16>>>(out);
  auto h = out.host();
  EXPECT(h[3] == 1000 + 100 + 12 + 12 + 3);
  manyShared<4><<<3, 4>>>(out);
  EXPECT(out.host()[3] == 1000 + 100 + 0 + 0 + 3);
  Array<float> floats(256);
  dynamicShared<<<1, 256, 256 * sizeof(float)>>>(floats);
  EXPECT(floats.host()[1] == 254.0f);
  dynamicRows<<<1, dim3(4, 4), 64>>>(out);
  EXPECT(out.host()[4 * 3 + 1] == 13);
  std::vector<float> cells(400, 1.0f);
  Array<float> in(400);
  OK(cudaMemcpy(in, cells.data(), 1600, cudaMemcpyHostToDevice));
  apron<<<1, 256>>>(in, floats);
  EXPECT(floats.is(25.0f));

  const float weights[4] = {1, 2, 3, 4};
  const int once = 1;
  int counter = 7;
  OK(cudaMemcpyToSymbol(cWeights, weights, sizeof weights));
  OK(cudaMemcpyToSymbol(cWeights, &weights[3], sizeof(float), sizeof(float)));
  OK(cudaMemcpyToSymbol(cOne, &once, sizeof once));
  OK(cudaMemcpyToSymbol(dCounter, &counter, sizeof counter, 0,
                        cudaMemcpyHostToDevice));
  weigh<<<1, 4>>>(floats);
  EXPECT(floats.host()[1] == 4.0f && floats.host()[2] == 3.0f);
  OK(cudaMemcpyFromSymbol(&counter, dCounter, sizeof counter));
  EXPECT(counter == 12);
  float* d_table = nullptr;
  float table[6];
  OK(cudaGetSymbolAddress(reinterpret_cast<void**>(&d_table), dTable));
  OK(cudaMemcpy(table, d_table, sizeof table, cudaMemcpyDeviceToHost));
  EXPECT(table[0] == 0.0f && table[5] == 2.5f);

  // 2 rows of 3 bytes, apart by 5 on the host and by 4 on the device.
  unsigned char rows[10] = {1, 2, 3, 0, 0, 4, 5, 6, 0, 0}, back[8];
  Array<unsigned char> bytes(8);
  OK(cudaMemcpy2D(bytes, 4, rows, 5, 3, 2, cudaMemcpyHostToDevice));
  OK(cudaMemcpy(back, bytes, 8, cudaMemcpyDeviceToHost));
  EXPECT(back[2] == 3 && back[3] == 0xFF && back[4] == 4 && back[6] == 6);
  Array<unsigned char> other(8);
  OK(cudaMemcpy(other, bytes, 8, cudaMemcpyDeviceToDevice));
  OK(cudaMemset(bytes, 7, 8));
  EXPECT(bytes.is(7) && other.host()[6] == 6);

  size_t free = 0, total = 0;
  OK(cudaMemGetInfo(&free, &total));
  EXPECT(free <= total && free > 1 << 20);
  int* pinned = nullptr;
  OK(cudaMallocHost(&pinned, 64));
  cudaPointerAttributes attributes;
  OK(cudaPointerGetAttributes(&attributes, pinned));
  EXPECT(attributes.type == cudaMemoryTypeHost);
  OK(cudaPointerGetAttributes(&attributes, out.d + 3));
  EXPECT(attributes.type == cudaMemoryTypeDevice);
  OK(cudaPointerGetAttributes(&attributes, &counter));
  EXPECT(attributes.type == cudaMemoryTypeUnregistered);
  OK(cudaFreeHost(pinned));
  OK(cudaHostAlloc(&pinned, 64, cudaHostAllocDefault));
  OK(cudaFreeHost(pinned));
  std::vector<int> mine(16384);
  OK(cudaHostRegister(mine.data(), mine.size() * 4, cudaHostRegisterDefault));
  OK(cudaPointerGetAttributes(&attributes, mine.data() + 1));
  EXPECT(attributes.type == cudaMemoryTypeHost);
  OK(cudaHostUnregister(mine.data()));
  OK(cudaFree(nullptr));
}

// -------------------------------------------------------- warps and barriers

__global__ void warps(int* out, double* d_out) {
  const int t = static_cast<int>(threadIdx.y * blockDim.x + threadIdx.x);
  const int lane = t % 32;
  const unsigned all = 0xffffffffu;
  int* o = out + t * 16;
  o[0] = __shfl_sync(all, t, 5);
  o[1] = __shfl_up_sync(all, t, 1);
  o[2] = __shfl_down_sync(all, t, 2u);
  o[3] = __shfl_xor_sync(all, t, 16);
  o[4] = __shfl_sync(all, t, 3, 8);
  o[5] = __shfl_up_sync(all, t, 1, 4);
  o[6] = __shfl_down_sync(all, t, 1, 4);
  o[7] = static_cast<int>(__ballot_sync(all, lane % 2));
  o[8] = __any_sync(all, lane == 31) + 2 * __any_sync(all, lane == 32);
  o[9] = __all_sync(all, lane < 32) + 2 * __all_sync(all, lane < 31);
  o[10] = 0;
  if (lane < 16)
    o[10] = __shfl_sync(0x0000ffffu, t, 0);
  else
    o[10] = __shfl_sync(0xffff0000u, t, 31);
  __syncwarp();
  int total = t;
  for (int by = 16; by > 0; by /= 2) total += __shfl_xor_sync(all, total, by);
  o[11] = total;
  o[12] = __syncthreads_count(lane < 3);
  o[13] = __syncthreads_or(t == 63) + 2 * __syncthreads_and(t < 64);
  o[14] = __syncthreads_or(0) + 2 * __syncthreads_and(t < 63);
  o[15] = static_cast<int>(__shfl_sync(all, static_cast<unsigned char>(t), 9));
  d_out[t] = __shfl_xor_sync(all, t + 0.25, 1) +
             static_cast<double>(__shfl_sync(all, 1ll << 40, 0) >> 40);
}
__global__ void voteOfTheRest(unsigned* out, int n) {
  const int i = static_cast<int>(threadIdx.x);
  if (i >= n) return;
  out[i] = __ballot_sync(0xffffffffu, i > 0);
  __syncwarp();
}
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 700
__global__ void match(unsigned* out) {
  out[threadIdx.x] = __match_any_sync(0xffffffffu, threadIdx.x % 3);
}
#endif
// Warp-wide sums through shared memory, ordered by __syncwarp alone.
__global__ void warpTree(int* out) {
  __shared__ int s[64];
  const unsigned t = threadIdx.x;
  s[t] = static_cast<int>(t);
  __syncwarp();
  for (unsigned by = 16; by > 0; by /= 2) {
    const int add = t % 32 < by ? s[t + by] : 0;
    __syncwarp();
    s[t] += add;
    __syncwarp();
  }
  out[t] = s[t / 32 * 32];
}
__global__ void manyBarriers(int* out, int rounds) {
  __shared__ int s[2][128];
  const unsigned t = threadIdx.x, n = blockDim.x;
  s[0][t] = static_cast<int>(t);
  for (int r = 0; r < rounds; ++r) {
    __syncthreads();
    s[(r + 1) % 2][(t + 1) % n] = s[r % 2][t];
  }
  __syncthreads();
  out[t] = s[rounds % 2][t];
}

void cooperation() {
  Array<int> out(64 * 16);
  Array<double> doubles(64);
  warps<<<1, dim3(8, 8)>>>(out, doubles);
  const auto h = out.host();
  const int* o = &h[41 * 16];  // thread 41 is lane 9 of warp 1
  EXPECT(o[0] == 37 && o[1] == 40 && o[2] == 43 && o[3] == 57);
  EXPECT(o[4] == 43 && o[5] == 40 && o[6] == 42);
  EXPECT(h[40 * 16 + 5] == 40 && h[43 * 16 + 6] == 43);
  EXPECT(h[32 * 16 + 1] == 32 && h[63 * 16 + 2] == 63);
  EXPECT(static_cast<unsigned>(o[7]) == 0xaaaaaaaau);
  EXPECT(o[8] == 1 && o[9] == 1 && o[10] == 32 && h[60 * 16 + 10] == 63);
  EXPECT(o[11] == 32 * 32 + 496 && o[12] == 6);
  EXPECT(o[13] == 3 && o[14] == 0 && o[15] == 41);
  EXPECT(doubles.host()[41] == 41.25);
  Array<unsigned> votes(32);
  voteOfTheRest<<<1, 32>>>(votes, 5);
  EXPECT(votes.host()[4] == 0x1eu && votes.host()[5] == 0xffffffffu);
  match<<<1, 32>>>(votes);
  EXPECT(votes.host()[3] == 0x49249249u);
  Array<int> sums(64);
  warpTree<<<1, 64>>>(sums);
  EXPECT(sums.host()[0] == 496 && sums.host()[63] == 496 + 1024);
  manyBarriers<<<4, 64>>>(sums, 1000);
  EXPECT(sums.host()[1000 % 64] == 0);
}

// ------------------------------------------------------- atomics, arithmetic

__global__ void atomics(int* i, unsigned* u, unsigned long long* l, float* f,
                        double* d) {
  const int t = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  atomicAdd(&i[0], 1);
  atomicSub(&i[1], 2);
  atomicMin(&i[2], t);
  atomicMax(&i[3], t);
  atomicExch(&i[4], 77);
  atomicCAS(&i[5], -1, 55);
  atomicAnd(&u[0], ~(1u << t % 32));
  atomicOr(&u[1], 1u << t % 8);
  atomicXor(&u[2], 1u);
  atomicInc(&u[3], 9u);
  atomicAdd(l, 1ull << 33);
  atomicAdd(f, 0.5f);
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 600
  atomicAdd(d, 0.25);
#endif
}
__global__ void histogram(const unsigned char* in, int n, unsigned* out) {
  __shared__ unsigned s_bins[256];
  for (unsigned b = threadIdx.x; b < 256; b += blockDim.x) s_bins[b] = 0;
  __syncthreads();
  for (int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x); i < n;
       i += static_cast<int>(gridDim.x * blockDim.x))
    atomicAdd(&s_bins[in[i]], 1u);
  __syncthreads();
  for (unsigned b = threadIdx.x; b < 256; b += blockDim.x)
    atomicAdd(&out[b], s_bins[b]);
}
__global__ void numbers(float* f, int* i, double* d) {
  f[0] = __fadd_rn(1.0f, 0x1p-24f);
  f[1] = __fmul_rn(1.5f, 3.0f);
  f[2] = __fmaf_rn(0x1.000002p0f, 0x1.000002p0f, -0x1.000004p0f);
  f[3] = 0x1.000002p0f;
  f[3] = __fsub_rn(__fmul_rn(f[3], f[3]), 0x1.000004p0f);  // not fused
  f[4] = __fdiv_rn(1.0f, 4.0f) + __fsqrt_rn(9.0f);
  f[5] = rsqrtf(4.0f);
  f[6] = __saturatef(-1.0f) + __saturatef(2.0f) + __saturatef(0.5f);
  f[7] = min(1.0f, 2.0f) + max(1.0f, 2.0f) + fminf(3.0f, 4.0f);
  f[8] = __uint_as_float(0x3f800000u) + __int_as_float(0x40000000);
  f[9] = hypotf(3.0f, 4.0f) + sqrtf(16.0f) + fabsf(-1.0f) + floorf(1.5f);
  f[10] = __ldg(f + 1) + __int2float_rn(3);
  i[0] = __float2int_rn(2.5f) * 100 + __float2int_rn(3.5f) * 10 +
         __float2int_rz(-1.7f);
  i[1] = static_cast<int>(__float2uint_rn(1.5f) + __float2uint_rz(1.9f));
  i[2] = __float_as_int(1.0f);
  i[3] = __popc(0xf0f0u) * 100 + __ffs(8) * 10 + __clz(1);
  i[4] = static_cast<int>(__brev(1u) >> 31) + __ffs(0) + __clz(0);
  i[5] = static_cast<int>(__byte_perm(0x33221100u, 0x77665544u, 0x7610u));
  i[6] = static_cast<int>(__umulhi(0x80000000u, 6u));
  i[7] = min(-3, 2) + max(-3, 2) + abs(-7);
  i[8] = static_cast<int>(min(5u, 3u)) + static_cast<int>(max(2ll, 9ll));
  i[9] = warpSize;
  i[11] = __dp2a_lo(0x0002ffff, 0x0403fe05, 100) +  // 100 - 5 - 4
          __dp2a_hi(0x0002ffff, 0x0403fe05, 1000);  // 1000 - 3 + 8
  i[12] = static_cast<int>(__dp4a(0xff000001u, 0x02000003u, 1u));
  const long long before = clock64();
  i[10] = clock64() >= before;
  d[0] = fma(2.0, 3.0, 1.0) + max(1.0, 2.0) + sqrt(4.0);
}
__global__ void vectors(const float4* in, float4* out, uchar4* bytes) {
  const float4 v = __ldcs(in);
  __stwb(out, make_float4(v.w, v.z, v.y, v.x));
  *bytes = make_uchar4(1, 2, 3, 255);
  const float2 pair = reinterpret_cast<const float2*>(in)[1];
  __stcs(out + 1, make_float4(pair.x, pair.y, __ldcg(in).x, 0.0f));
}

void arithmetic() {
  Array<int> i(16);
  Array<unsigned> u(4);
  Array<unsigned long long> l(1);
  Array<float> f(16);
  Array<double> d(1);
  OK(cudaMemset(i, 0, 4 * sizeof(int)));
  OK(cudaMemset(u + 1, 0, 3 * sizeof(unsigned)));
  OK(cudaMemset(l, 0, 8));
  OK(cudaMemset(f, 0, 4));
  OK(cudaMemset(d, 0, 8));
  atomics<<<64, 128>>>(i, u, l, f, d);
  auto hi = i.host();
  auto hu = u.host();
  EXPECT(hi[0] == 8192 && hi[1] == -16384 && hi[2] == 0 && hi[3] == 8191);
  EXPECT(hi[4] == 77 && hi[5] == 55);
  EXPECT(hu[0] == 0 && hu[1] == 0xff && hu[2] == 0 && hu[3] == 2);
  EXPECT(l.host()[0] == 8192ull << 33);
  EXPECT(f.host()[0] == 4096.0f && d.host()[0] == 2048.0);

  std::vector<unsigned char> image(100000);
  for (size_t n = 0; n < image.size(); ++n)
    image[n] = static_cast<unsigned char>(n * n % 251);
  Array<unsigned char> d_image(image.size());
  Array<unsigned> bins(256);
  OK(cudaMemset(bins, 0, 1024));
  OK(cudaMemcpy(d_image, image.data(), image.size(), cudaMemcpyHostToDevice));
  histogram<<<20, 96>>>(d_image, 100000, bins);
  std::vector<unsigned> want(256);
  for (unsigned char v : image) ++want[v];
  EXPECT(bins.host() == want);

  numbers<<<1, 1>>>(f, i, d);
  auto hf = f.host();
  hi = i.host();
  EXPECT(hf[0] == 1.0f && hf[1] == 4.5f && hf[2] == 0x1p-46f && hf[3] == 0.0f);
  EXPECT(hf[4] == 3.25f && hf[5] == 0.5f && hf[6] == 1.5f && hf[7] == 6.0f);
  EXPECT(hf[8] == 3.0f && hf[9] == 11.0f && hf[10] == 7.5f);
  EXPECT(hi[0] == 239 && hi[1] == 3 && hi[2] == 0x3f800000);
  EXPECT(hi[3] == 871 && hi[4] == 33 && hi[5] == 0x77661100);
  EXPECT(hi[6] == 3 && hi[7] == 6 && hi[8] == 12 && hi[9] == 32 && hi[10]);
  EXPECT(hi[11] == 91 + 1005 && hi[12] == 514);
  EXPECT(d.host()[0] == 11.0);

  const float4 v = make_float4(1, 2, 3, 4);
  Array<float4> in(1), out(2);
  Array<uchar4> bytes(1);
  OK(cudaMemcpy(in, &v, sizeof v, cudaMemcpyHostToDevice));
  vectors<<<1, 1>>>(in, out, bytes);
  std::vector<float4> back(2);
  uchar4 b;
  OK(cudaMemcpy(back.data(), out, 32, cudaMemcpyDeviceToHost));
  OK(cudaMemcpy(&b, bytes, 4, cudaMemcpyDeviceToHost));
  EXPECT(back[0].x == 4 && back[0].w == 1 && back[1].x == 3 && back[1].z == 1);
  EXPECT(b.x == 1 && b.w == 255);
  EXPECT(sizeof(float3) == 12 && alignof(float2) == 8 && alignof(float4) == 16);
  EXPECT(alignof(uchar4) == 4 && alignof(int2) == 8 && alignof(short4) == 8);
}

// ------------------------------------------------------------- the device

void device() {
  int count = 0, current = -1, value = -1, driver = -1, runtime = -1;
  OK(cudaGetDeviceCount(&count));
  OK(cudaGetDevice(&current));
  OK(cudaSetDevice(0));
  EXPECT(count >= 1 && current == 0);
  EXPECT(cudaSetDevice(99) == cudaErrorInvalidDevice);
  EXPECT(cudaGetLastError() == cudaErrorInvalidDevice);
  OK(cudaGetLastError());
  OK(cudaDriverGetVersion(&driver));
  OK(cudaRuntimeGetVersion(&runtime));
  cudaDeviceProp properties;
  OK(cudaGetDeviceProperties(&properties, 0));
  EXPECT(properties.warpSize == 32 && properties.maxThreadsPerBlock == 1024);
  EXPECT(properties.sharedMemPerBlock == 49152);
  EXPECT(properties.maxGridSize[1] == 65535);
  EXPECT(properties.multiProcessorCount > 0 && properties.totalGlobalMem > 0);
  OK(cudaDeviceGetAttribute(&value, cudaDevAttrComputeCapabilityMajor, 0));
  EXPECT(value == properties.major);
  OK(cudaDeviceGetAttribute(&value, cudaDevAttrMultiProcessorCount, 0));
  EXPECT(value == properties.multiProcessorCount);
  OK(cudaDeviceGetAttribute(&value, cudaDevAttrClockRate, 0));
  OK(cudaDeviceGetAttribute(&value, cudaDevAttrMemoryClockRate, 0));
  OK(cudaDeviceGetAttribute(&value, cudaDevAttrGlobalMemoryBusWidth, 0));
  printf("device: %s, sm_%d%d, L2 %d, bus %d bits\n", properties.name,
         properties.major, properties.minor, properties.l2CacheSize, value);
  cudaFuncAttributes attributes;
  OK(cudaFuncGetAttributes(&attributes, apron));
  EXPECT(attributes.maxThreadsPerBlock >= 256);
  OK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&value, apron, 256, 0));
  EXPECT(value >= 1);
  OK(cudaFuncSetAttribute(dynamicShared,
                          cudaFuncAttributeMaxDynamicSharedMemorySize, 65536));
  Array<float> floats(256);
  dynamicShared<<<1, 256, 65536>>>(floats);
  EXPECT(floats.host()[255] == 0.0f);
#ifdef __CUDACC__
  printf("nvcc %d.%d, __CUDA_ARCH_LIST__ %d\n", __CUDACC_VER_MAJOR__,
         __CUDACC_VER_MINOR__, std::vector<int>{__CUDA_ARCH_LIST__}[0]);
#endif
}

int main(int argc, char**) {
  launches();
  memory();
  cooperation();
  arithmetic();
  device();
  OK(cudaDeviceSynchronize());
  const int line = __LINE__;  // here: lines
  printf("%s:%d and %s:%d\n", __FILE__, line, headerFile(), headerLine());
  if (FILE* f = fopen(headerFile(), "rb")) {
    fclose(f);
  } else if (argc > 1) {
    printf("cannot open %s\n", headerFile());
    ++failures;
  }
  OK(cudaDeviceReset());
  printf("%s\n", failures ? "FAILED" : "all as expected");
  return failures ? 1 : 0;
}
