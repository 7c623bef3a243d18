// Day 20 capstone: blur an image and find its edges on a GPU, check every
// kernel against a CPU reference, and print an honest, event-timed table.
//
// Build:  nvcc -std=c++17 -O3 -arch=sm_75 -o convolution convolution.cu
// Run:    ./convolution                 every case, then the table
//         ./convolution IMAGE.pgm       the edges of your own picture
// No GPU: sh exercises/no-gpu/nvcc -std=c++17 -O3 -arch=sm_75
//             -o convolution convolution.cu && ./convolution
//
// The kernels, in the order in which to understand them:
//   copyPixels       one float a thread: the bandwidth to compare with
//   blurNaive        25 loads an output, all from global memory
//   blurTiled        a 32 x 32 tile and its halo in shared memory: 1.27 loads
//   blurSeparable    a row pass, then a column pass, in one kernel
//   sobelMagnitude   the same tiling for a 3 x 3 gradient
//   thresholdEdges   floats to bytes
//   sobelThreshold   the last two fused: 5 bytes a pixel instead of 13
// and the same work at the speed of a copy:
//   copyWide, thresholdWide            four pixels a thread
//   blurRegisters, sobelRegisters      windows of pixels in registers
//   pipelineOneKernel                  picture to edges, 5 bytes a pixel
//
// The file reads top to bottom: errors; sizes, tolerances and filters; kernels;
// CPU references; Netpbm and pictures; the table of stages; comparing; timing;
// cases; main. A kernel is written once and named once, in lessonStages(), and
// is from then on checked in every case, timed and printed.
//
// SPDX-License-Identifier: MIT

#include <cuda_runtime.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <climits>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <random>
#include <string>
#include <system_error>
#include <thread>
#include <type_traits>
#include <vector>
#ifdef _WIN32
#include <io.h>
#else
#include <unistd.h>
#endif

constexpr const char* kVersion = "1.0.0";

// ===================================================== errors and exit codes

// What the program returns to the shell, and how failures travel upward.
enum Exit { kPass = 0, kFailed = 1, kUsage = 2, kNoGpu = 3 };

// What to do about an error, where the cause is known; "" elsewhere.
inline std::string hintFor(cudaError_t status) {
  int driver = 0, device = 0, major = 0, minor = 0;
  char text[200];
  switch (status) {
    case cudaErrorInsufficientDriver:
      if (cudaDriverGetVersion(&driver) == cudaSuccess && driver != 0) {
        snprintf(text, sizeof text,
                 "the driver knows CUDA %d.%d, this program was built with "
                 "%d.%d: update the driver, or build with an older toolkit",
                 driver / 1000, driver % 1000 / 10, CUDART_VERSION / 1000,
                 CUDART_VERSION % 1000 / 10);
        return text;
      }
      [[fallthrough]];  // no driver at all
    case cudaErrorNoDevice:
      return "no usable GPU here. On Colab: Runtime, Change runtime type, T4. "
             "Without a GPU: sh exercises/no-gpu/nvcc -std=c++17 -O3 "
             "-arch=sm_75 -o convolution convolution.cu";
    case cudaErrorUnsupportedPtxVersion:
    case cudaErrorNoKernelImageForDevice:
    case cudaErrorInvalidDeviceFunction:
    case cudaErrorInvalidSymbol:
    case cudaErrorInvalidKernelImage:
    case cudaErrorInvalidPtx:
      if (cudaGetDevice(&device) == cudaSuccess &&
          cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor,
                                 device) == cudaSuccess &&
          cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor,
                                 device) == cudaSuccess) {
        snprintf(text, sizeof text,
                 "this program holds no code that this card can run: rebuild "
                 "with -arch=sm_%d%d",
                 major, minor);
        return text;
      }
      return "this program holds no code that this card can run";
    case cudaErrorLaunchOutOfResources:
      return "a block of this kernel needs more registers or shared memory "
             "than a multiprocessor has. Built with -G? Build without it";
    case cudaErrorInvalidConfiguration:
    case cudaErrorInvalidValue:
      return "an argument is out of range. If it is a launch: a block has at "
             "most 1024 threads, a grid at most 65535 blocks in y";
    case cudaErrorIllegalAddress:
    case cudaErrorMisalignedAddress:
    case cudaErrorLaunchFailure:
      return "a kernel went wrong while it ran. compute-sanitizer "
             "./convolution --no-timing names the line, and so does a build "
             "with exercises/no-gpu/nvcc -fsanitize=address,undefined";
    case cudaErrorMemoryAllocation:
      return "not enough free device memory: close what else uses the card";
    default:
      return "";
  }
}

// Prints file, line, call and text of a CUDA error, then what to do.
inline Exit reportCudaError(const char* file, int line, const char* call,
                            cudaError_t status) {
  fflush(stdout);
  fprintf(stderr, "%s:%d: %s failed: error %d, %s\n", file, line, call,
          static_cast<int>(status), cudaGetErrorString(status));
  const std::string hint = hintFor(status);
  if (!hint.empty()) fprintf(stderr, "  what to do: %s\n", hint.c_str());
  return kNoGpu;
}

// Leaves the current function with kNoGpu, after a report, if `call` fails.
#define CUDA_TRY(call)                                            \
  do {                                                            \
    const cudaError_t status_ = (call);                           \
    if (status_ != cudaSuccess)                                   \
      return reportCudaError(__FILE__, __LINE__, #call, status_); \
  } while (0)

// Leaves the current function if `call`, which returns an Exit, did not pass.
#define TRY(call)                     \
  do {                                \
    const Exit exit_ = (call);        \
    if (exit_ != kPass) return exit_; \
  } while (0)

// Owns device memory of `count` elements; freed when it goes out of scope.
// The size is exact, so that a sanitizer sees the first access past the end.
template <class T>
class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;
  ~DeviceBuffer() { cudaFree(d_data_); }

  Exit allocate(size_t count) {
    if (count == count_) return kPass;
    CUDA_TRY(cudaFree(d_data_));
    d_data_ = nullptr;
    count_ = 0;
    const cudaError_t status = cudaMalloc(&d_data_, count * sizeof(T));
    if (status != cudaSuccess) {
      reportCudaError(__FILE__, __LINE__, "cudaMalloc", status);
      size_t free = 0, total = 0;
      cudaMemGetInfo(&free, &total);
      fprintf(stderr, "  needs %.1f MiB, free are %.1f of %.1f MiB\n",
              count * sizeof(T) / 1048576.0, free / 1048576.0,
              total / 1048576.0);
      return kNoGpu;
    }
    count_ = count;
    return kPass;
  }
  Exit upload(const T* h_data) {
    CUDA_TRY(cudaMemcpy(d_data_, h_data, count_ * sizeof(T),
                        cudaMemcpyHostToDevice));
    return kPass;
  }
  Exit download(T* h_data) const {
    CUDA_TRY(cudaMemcpy(h_data, d_data_, count_ * sizeof(T),
                        cudaMemcpyDeviceToHost));
    return kPass;
  }
  Exit fill(int byte) {
    CUDA_TRY(cudaMemset(d_data_, byte, count_ * sizeof(T)));
    return kPass;
  }
  T* get() const { return d_data_; }

 private:
  T* d_data_ = nullptr;
  size_t count_ = 0;
};

// ============================================== sizes, tolerances and filters

constexpr int kTile = 32;                    // outputs of a block, each way
constexpr int kRadius = 2;                   // of the 5 x 5 blur
constexpr int kTaps = 2 * kRadius + 1;       // 5
constexpr int kApron = kTile + 2 * kRadius;  // 36: the tile and its halo
constexpr int kCopyRows = 8;                 // of a block of the copy
constexpr int kSobelRadius = 1;              // of the 3 x 3 gradient
constexpr int kSobelApron = kTile + 2 * kSobelRadius;  // 34
constexpr int kPitch = kApron;                         // words from row to row
constexpr int kPaddedPitch = kApron + 1;               // 37

constexpr size_t kOddRows = 613, kOddCols = 611;  // neither divides by 32
constexpr size_t kBaseSize = 1024, kPerfRepeat = 4;
constexpr size_t kPerfSize = kBaseSize * kPerfRepeat;  // 4096

constexpr float kThreshold = 0.30f;
constexpr double kBlurAbs = 1e-6, kSobelAbs = 1e-4, kRelative = 1e-5;
constexpr double kForgiveBand = 1e-4;    // |magnitude - threshold|
constexpr double kForgiveShare = 0.001;  // of the pixels

constexpr int kWarmUps = 3, kRuns = 10, kRounds = 5;

// The taps as integers. Blur: out(r, c) = sum of col[i] row[j] in(r + i - 2,
// c + j - 2) / 256. Sobel: gx and gy weigh the 3 x 3 neighbourhood row by row.
struct Filters {
  int row[kTaps], col[kTaps];
  int sobelX[9], sobelY[9];
};
constexpr Filters kLessonFilters = {{1, 4, 6, 4, 1},
                                    {1, 4, 6, 4, 1},
                                    {-1, 0, 1, -2, 0, 2, -1, 0, 1},
                                    {-1, -2, -1, 0, 0, 0, 1, 2, 1}};
// No two taps that a flip or a transposition would exchange are equal.
constexpr Filters kSkewFilters = {{1, 2, 3, 4, 6},
                                  {5, 7, 2, 2, 0},
                                  {-1, 3, 1, -4, 0, 2, -2, 1, 0},
                                  {-3, -1, 0, 2, 1, -2, 0, 1, 2}};
constexpr int kTapSum = 16;

constexpr int sumOf(const int (&taps)[kTaps]) {
  int sum = 0;
  for (int i = 0; i < kTaps; ++i) sum += taps[i];
  return sum;
}
constexpr size_t divideUp(size_t a, size_t b) {
  return (a + b - 1) / b;
}
constexpr int tilesOver(size_t extent) {
  return static_cast<int>(divideUp(extent, kTile));
}

static_assert(sumOf(kLessonFilters.row) == kTapSum &&
                  sumOf(kLessonFilters.col) == kTapSum &&
                  sumOf(kSkewFilters.row) == kTapSum &&
                  sumOf(kSkewFilters.col) == kTapSum,
              "the taps of one pass must sum to 16, so that flat stays flat");
static_assert(kTile * kTile <= 1024, "a block has at most 1024 threads");
static_assert(kTile * kTile % 32 == 0, "a block must be whole warps");
static_assert(10 * kApron * kApron <= 16 * kTile * kTile,
              "the apron may cost at most 1.6 loads an output");
static_assert(kApron * kPaddedPitch * sizeof(float) <= 48 * 1024,
              "the padded apron must fit 48 KiB of shared memory");
static_assert((kApron * kApron + kApron * kTile) * sizeof(float) <= 48 * 1024,
              "apron and row pass must fit 48 KiB of shared memory together");
static_assert(kSobelApron * kSobelApron * sizeof(float) <= 48 * 1024,
              "the Sobel apron must fit 48 KiB of shared memory");
static_assert(kOddRows % kTile != 0 && kOddCols % kTile != 0,
              "the odd case must leave partial tiles both ways");
static_assert(kPerfSize % kTile == 0, "no guard may fire in the perf case");
static_assert(tilesOver(kPerfSize) <= 65535, "gridDim.y is at most 65535");

// Constant memory serves a warp in one go when all lanes read one address, as
// they do here; it serialises where the addresses differ.
__constant__ float cGauss[kTaps * kTaps];  // col[i] row[j] / 256
__constant__ float cRow[kTaps];            // row[j] / 16
__constant__ float cCol[kTaps];            // col[i] / 16
__constant__ float cSobelX[9];
__constant__ float cSobelY[9];

// Copies the taps into constant memory. All quotients are exact in a float.
inline Exit uploadFilters(const Filters& filters) {
  float gauss[kTaps * kTaps], row[kTaps], col[kTaps], x[9], y[9];
  for (int i = 0; i < kTaps; ++i) {
    row[i] = static_cast<float>(filters.row[i]) / kTapSum;
    col[i] = static_cast<float>(filters.col[i]) / kTapSum;
    for (int j = 0; j < kTaps; ++j) {
      gauss[i * kTaps + j] =
          static_cast<float>(filters.col[i] * filters.row[j]) /
          (kTapSum * kTapSum);
    }
  }
  for (int i = 0; i < 9; ++i) {
    x[i] = static_cast<float>(filters.sobelX[i]);
    y[i] = static_cast<float>(filters.sobelY[i]);
  }
  CUDA_TRY(cudaMemcpyToSymbol(cGauss, gauss, sizeof gauss));
  CUDA_TRY(cudaMemcpyToSymbol(cRow, row, sizeof row));
  CUDA_TRY(cudaMemcpyToSymbol(cCol, col, sizeof col));
  CUDA_TRY(cudaMemcpyToSymbol(cSobelX, x, sizeof x));
  CUDA_TRY(cudaMemcpyToSymbol(cSobelY, y, sizeof y));
  return kPass;
}

// =================================================================== kernels
//
// All take rows x cols floats, row-major and tightly packed, with rows and
// cols under 2^31. All but the copy are launched with 32 x 32 threads, one an
// output, on a grid of ceil(cols / 32) x ceil(rows / 32) blocks. A warp is one
// row of the tile: its 32 lanes touch 32 consecutive floats, 128 bytes, four
// sectors.

// out(r, c) = in(r, c).
// A thread owns one pixel: one coalesced load, one coalesced store, 8 bytes.
// Launched with 32 x 8 threads, since a block that keeps no tile need not be
// large, and small ones leave and make room one by one.
// The simplest kernel that moves an image: every other row of the table is
// set against it.
__global__ void copyPixels(const float* d_in, float* d_out, size_t rows,
                           size_t cols) {
  const size_t col = blockIdx.x * kTile + threadIdx.x;
  const size_t row = blockIdx.y * kCopyRows + threadIdx.y;
  if (row >= rows || col >= cols) return;
  d_out[row * cols + col] = d_in[row * cols + col];
}

// out(r, c) = sum over i, j < 5 of cGauss(i, j) in(r + i - 2, c + j - 2), with
// zero outside the image.
// A thread owns one pixel and loads its 25 neighbours from global memory; the
// caches turn most of them into hits. Loads an output: 25.
// Compare with blurTiled: a twentieth of the loads, and not a twentieth of
// the time, since the caches had done most of that work already.
__global__ void blurNaive(const float* d_in, float* d_out, size_t rows,
                          size_t cols) {
  const int col = blockIdx.x * kTile + threadIdx.x;
  const int row = blockIdx.y * kTile + threadIdx.y;
  const int lastRow = static_cast<int>(rows) - 1;
  const int lastCol = static_cast<int>(cols) - 1;
  if (row > lastRow || col > lastCol) return;
  float sum = 0.0f;
  for (int i = 0; i < kTaps; ++i) {
    for (int j = 0; j < kTaps; ++j) {
      const int y = row + i - kRadius, x = col + j - kRadius;
      if (y >= 0 && y <= lastRow && x >= 0 && x <= lastCol) {
        sum += cGauss[i * kTaps + j] * d_in[static_cast<size_t>(y) * cols + x];
      }
    }
  }
  d_out[row * cols + col] = sum;
}

// Loads the block's tile and a halo of kHalo pixels around it into s_apron,
// (32 + 2 kHalo) rows of `pitch` words; pixels outside the image become zero.
// 1024 threads fill 1296 slots (kHalo 2): each loads one, and the 240 threads
// with x or y under 4 load the other 272. Stepping by the tile finds a second
// helping by an addition; dividing a flat index by 36 would cost more than
// the load. The apron's corner lies left of and above the image in the first
// tiles, so it is signed. Every thread of the block must come here, also one
// whose own pixel is outside: its slot is a neighbour's halo.
template <int kHalo>
__device__ void loadApron(const float* d_in, size_t rows, size_t cols,
                          float* s_apron, int pitch) {
  constexpr int kWidth = kTile + 2 * kHalo;
  const int top = static_cast<int>(blockIdx.y) * kTile - kHalo;
  const int left = static_cast<int>(blockIdx.x) * kTile - kHalo;
  const int endRow = static_cast<int>(rows), endCol = static_cast<int>(cols);
  for (int y = threadIdx.y; y < kWidth; y += kTile) {
    for (int x = threadIdx.x; x < kWidth; x += kTile) {
      const int row = top + y, col = left + x;
      const bool inside = row >= 0 && row < endRow && col >= 0 && col < endCol;
      s_apron[y * pitch + x] =
          inside ? d_in[static_cast<size_t>(row) * cols + col] : 0.0f;
    }
  }
}

// The same blur as blurNaive, from a tile in shared memory.
// A thread owns one pixel. Global loads an output: 36 x 36 / 1024 = 1.27.
// Shared loads an output: 25. The lanes of a warp read consecutive words, so
// no two meet in a bank, whether the pitch is 36 or 37: padding can't help.
// Launch: 36 * pitch words of dynamic shared memory; pitch >= 36.
// The barrier orders all writes of the apron before all reads; the guard
// comes after it, since every thread must reach it.
__global__ void blurTiled(const float* d_in, float* d_out, size_t rows,
                          size_t cols, int pitch) {
  extern __shared__ float s_apron[];
  loadApron<kRadius>(d_in, rows, cols, s_apron, pitch);
  __syncthreads();
  const size_t col = blockIdx.x * kTile + threadIdx.x;
  const size_t row = blockIdx.y * kTile + threadIdx.y;
  if (row >= rows || col >= cols) return;
  float sum = 0.0f;
  for (int i = 0; i < kTaps; ++i) {
    for (int j = 0; j < kTaps; ++j) {
      sum += cGauss[i * kTaps + j] *
             s_apron[(threadIdx.y + i) * pitch + threadIdx.x + j];
    }
  }
  d_out[row * cols + col] = sum;
}

// The same blur in two passes: rows(y, c) = sum of cRow(j) in(y, c + j - 2),
// then out(r, c) = sum of cCol(i) rows(r + i - 2, c).
// 10 multiply-adds an output instead of 25. The row pass covers the tile and
// the halo above and below it, 36 x 32, and stays in shared memory, so global
// traffic is that of blurTiled. The second barrier orders the row pass before
// the column pass, which reads what other threads wrote.
// Compare with the two-kernel form of exercises/two_pass.cu, which sends the
// row pass through global memory: 16 bytes a pixel instead of 8.
__global__ void blurSeparable(const float* d_in, float* d_out, size_t rows,
                              size_t cols) {
  __shared__ float s_apron[kApron * kApron];
  __shared__ float s_rows[kApron * kTile];
  loadApron<kRadius>(d_in, rows, cols, s_apron, kApron);
  __syncthreads();
  for (int y = threadIdx.y; y < kApron; y += kTile) {
    float sum = 0.0f;
    for (int j = 0; j < kTaps; ++j) {
      sum += cRow[j] * s_apron[y * kApron + threadIdx.x + j];
    }
    s_rows[y * kTile + threadIdx.x] = sum;
  }
  __syncthreads();
  const size_t col = blockIdx.x * kTile + threadIdx.x;
  const size_t row = blockIdx.y * kTile + threadIdx.y;
  if (row >= rows || col >= cols) return;
  float sum = 0.0f;
  for (int i = 0; i < kTaps; ++i) {
    sum += cCol[i] * s_rows[(threadIdx.y + i) * kTile + threadIdx.x];
  }
  d_out[row * cols + col] = sum;
}

// The gradient's magnitude at this thread's pixel, hypot(gx, gy), from an
// apron of 34 x 34 words in shared memory. Both Sobel kernels call it, so the
// fused one compares the very number that the staged one would have stored.
__device__ float sobelAt(const float* s_apron) {
  float gx = 0.0f, gy = 0.0f;
  for (int i = 0; i < 3; ++i) {
    for (int j = 0; j < 3; ++j) {
      const float value =
          s_apron[(threadIdx.y + i) * kSobelApron + threadIdx.x + j];
      gx += cSobelX[i * 3 + j] * value;
      gy += cSobelY[i * 3 + j] * value;
    }
  }
  return hypotf(gx, gy);
}

// out(r, c) = magnitude of the gradient of the blurred image, zero outside it.
// A thread owns one pixel. Global loads an output: 34 x 34 / 1024 = 1.13.
// 8 bytes a pixel, 4 of which the next kernel has to read again.
__global__ void sobelMagnitude(const float* d_blur, float* d_magnitude,
                               size_t rows, size_t cols) {
  __shared__ float s_apron[kSobelApron * kSobelApron];
  loadApron<kSobelRadius>(d_blur, rows, cols, s_apron, kSobelApron);
  __syncthreads();
  const size_t col = blockIdx.x * kTile + threadIdx.x;
  const size_t row = blockIdx.y * kTile + threadIdx.y;
  if (row >= rows || col >= cols) return;
  d_magnitude[row * cols + col] = sobelAt(s_apron);
}

// out(r, c) = 255 where the magnitude is above the threshold, else 0.
// A thread owns one pixel: 4 bytes in, 1 byte out. A warp stores 32 bytes,
// one sector.
__global__ void thresholdEdges(const float* d_magnitude, unsigned char* d_edges,
                               size_t rows, size_t cols, float threshold) {
  const size_t col = blockIdx.x * kTile + threadIdx.x;
  const size_t row = blockIdx.y * kTile + threadIdx.y;
  if (row >= rows || col >= cols) return;
  d_edges[row * cols + col] =
      d_magnitude[row * cols + col] > threshold ? 255 : 0;
}

// sobelMagnitude and thresholdEdges in one kernel: the magnitude stays in a
// register. 5 bytes a pixel instead of 13, so at most 2.6 times as fast, if
// traffic is the only limit.
__global__ void sobelThreshold(const float* d_blur, unsigned char* d_edges,
                               size_t rows, size_t cols, float threshold) {
  __shared__ float s_apron[kSobelApron * kSobelApron];
  loadApron<kSobelRadius>(d_blur, rows, cols, s_apron, kSobelApron);
  __syncthreads();
  const size_t col = blockIdx.x * kTile + threadIdx.x;
  const size_t row = blockIdx.y * kTile + threadIdx.y;
  if (row >= rows || col >= cols) return;
  d_edges[row * cols + col] = sobelAt(s_apron) > threshold ? 255 : 0;
}

// ==================================================== kernels at copy speed
//
// The kernels above spend their time on instructions: one pixel a thread, a
// bounds test for each tap, 64-bit indices, a barrier at which everybody
// waits. These give a thread four neighbouring columns of several rows, and
// keep all in registers. No shared memory: a thread's own columns are reused
// down the rows, and what two threads both need comes from the L1 cache or by
// a shuffle. No barrier, so a warp that has its data never waits for others.
//
// All take rows x cols floats, row-major and tightly packed, whose first
// element is aligned as cudaMalloc aligns it. kN is 4 where 4 divides cols, so
// that every row starts at 16 bytes, and 1 elsewhere: the same arithmetic, the
// same bits, four times the instructions. A block is 32 x 4 threads; a warp is
// one row of it. gridDim.y holds no more than 65535, so tall images go on in
// gridDim.z.
//
// Every operation is spelled (__fadd_rn, __fmaf_rn): the compiler may not fuse
// a multiplication and an addition in one kernel and leave them apart in
// another. So the one-kernel pipeline gives the bytes of the staged kernels,
// for any input.
//
// Edges: a test that is the same for the whole block picks a body without any
// bounds, or one that reads four zeros instead of pixels outside the image.
// The select is made on the address, before the load: a branch around a load
// would let only one row's load run at a time, and a select on the value makes
// the warp wait for each load where it is issued.

constexpr unsigned kAllLanes = 0xffffffffu;
constexpr int kLanes = 32;
constexpr int kStackedWarps = 4;  // of a block, one above the other

// kN neighbouring pixels of one row.
template <int kN>
struct Pixels {
  float v[kN];
};

// What is read in place of pixels outside the image: zeros.
__device__ float4 outsidePixels;

__device__ __forceinline__ const float* orOutside(bool inside, const float* p) {
  return inside ? p : reinterpret_cast<const float*>(&outsidePixels);
}

// 0 <= i < n, in one comparison: a negative number is a large unsigned one.
__device__ __forceinline__ bool within(int i, int n) {
  return static_cast<unsigned>(i) < static_cast<unsigned>(n);
}

// Offset of a pixel, in elements. A row fits in 31 bits, an image need not.
__device__ __forceinline__ ptrdiff_t offsetOf(int row, int col, int cols) {
  return static_cast<ptrdiff_t>(row) * cols + col;
}

// Which of the blocks above one another this is.
__device__ __forceinline__ int blockRow() {
  return blockIdx.z * gridDim.y + blockIdx.y;
}

// Reads kN pixels, two or four of them in one instruction.
__device__ __forceinline__ Pixels<2> pixelsOf(float2 q) {
  return {{q.x, q.y}};
}
__device__ __forceinline__ Pixels<4> pixelsOf(float4 q) {
  return {{q.x, q.y, q.z, q.w}};
}
template <int kN>
__device__ __forceinline__ Pixels<kN> loadPixels(const float* p) {
  if constexpr (kN == 1) {
    return {{*p}};
  } else if constexpr (kN == 2) {
    return pixelsOf(*reinterpret_cast<const float2*>(p));
  } else {
    static_assert(kN == 4, "one, two or four pixels make a load");
    return pixelsOf(*reinterpret_cast<const float4*>(p));
  }
}

// Stores kN floats in one instruction; the intrinsic keeps it one.
template <int kN>
__device__ __forceinline__ void storePixels(float* p, const Pixels<kN>& q) {
  if constexpr (kN == 1) {
    *p = q.v[0];
  } else {
    __stwb(reinterpret_cast<float4*>(p),
           make_float4(q.v[0], q.v[1], q.v[2], q.v[3]));
  }
}

// 255 where a value is above the limit, else 0: kN bytes, the first lowest.
template <int kN>
__device__ __forceinline__ unsigned edgeBytes(const Pixels<kN>& values,
                                              float limit) {
  unsigned bytes = 0;
#pragma unroll
  for (int i = 0; i < kN; ++i)
    bytes |= values.v[i] > limit ? 0xffu << 8 * i : 0u;
  return bytes;
}

// Stores kN bytes in one instruction.
template <int kN>
__device__ __forceinline__ void storeBytes(unsigned char* p, unsigned bytes) {
  if constexpr (kN == 1) {
    *p = static_cast<unsigned char>(bytes);
  } else {
    *reinterpret_cast<unsigned*>(p) = bytes;
  }
}

template <int kN>
__device__ __forceinline__ Pixels<kN> zeroUnless(bool keep, Pixels<kN> p) {
#pragma unroll
  for (int i = 0; i < kN; ++i) p.v[i] = keep ? p.v[i] : 0.0f;
  return p;
}

// The Gaussian blur of a column strip, one row after the other. push takes the
// next row, kN columns and two more on each side, and returns the blurred row
// two rows back; the first four calls return what is to be thrown away.
// Along the row: 6p + (4(a + b) + (c + d)). Down the columns: 1 4 6 4 1 is
// 1 1 applied four times, four additions that need one value of each stage
// from the call before, and no window of five rows to shift. Both are the same
// upside down, bit for bit. The division by 256 is exact.
template <int kN>
struct BlurColumns {
  Pixels<kN> row{}, pair{}, triple{}, quad{};  // sums of 1, 2, 3 and 4 rows
  __device__ __forceinline__ Pixels<kN> push(const Pixels<kN + 4>& wide) {
    Pixels<kN> blurred;
#pragma unroll
    for (int i = 0; i < kN; ++i) {
      const float* p = wide.v + i;
      const float near = __fadd_rn(p[1], p[3]), far = __fadd_rn(p[0], p[4]);
      const float one = __fmaf_rn(6.0f, p[2], __fmaf_rn(4.0f, near, far));
      const float two = __fadd_rn(one, row.v[i]);
      const float three = __fadd_rn(two, pair.v[i]);
      const float four = __fadd_rn(three, triple.v[i]);
      const float five = __fadd_rn(four, quad.v[i]);
      row.v[i] = one, pair.v[i] = two, triple.v[i] = three, quad.v[i] = four;
      blurred.v[i] = __fmul_rn(five, 1.0f / 256.0f);
    }
    return blurred;
  }
};

// Sobel likewise: push takes the next row of the blurred image, kN columns and
// one more on each side, and returns gx^2 + gy^2 of the row before it; the
// first two calls return what is to be thrown away. Upside down, gy changes
// its sign and the square does not.
template <int kN>
struct SobelColumns {
  Pixels<kN> slope{}, slopes{};  // of the last row, of the last two
  Pixels<kN> last{}, before{};   // smoothed along the row: last, the one before
  __device__ __forceinline__ Pixels<kN> push(const Pixels<kN + 2>& wide) {
    Pixels<kN> square;
#pragma unroll
    for (int i = 0; i < kN; ++i) {
      const float* p = wide.v + i;
      const float difference = __fsub_rn(p[2], p[0]);
      const float smooth = __fmaf_rn(2.0f, p[1], __fadd_rn(p[0], p[2]));
      const float two = __fadd_rn(difference, slope.v[i]);
      const float gx = __fadd_rn(two, slopes.v[i]);
      const float gy = __fsub_rn(smooth, before.v[i]);
      slope.v[i] = difference, slopes.v[i] = two;
      before.v[i] = last.v[i], last.v[i] = smooth;
      square.v[i] = __fmaf_rn(gx, gx, __fmul_rn(gy, gy));
    }
    return square;
  }
};

// out(i) = in(i), for n floats.
// A thread owns four: one load and one store of 16 bytes, so that a quarter of
// the threads keeps as many bytes in flight. 8 bytes a pixel.
// Launch: one dimension, n / 4 threads rounded up; the last n % 4 floats go to
// the thread after the last quad.
// This is the best copy: what the rows below are set against.
constexpr int kFlatThreads = 256;
__global__ void __launch_bounds__(kFlatThreads)
    copyWide(const float* d_in, float* d_out, size_t n) {
  const size_t i = static_cast<size_t>(blockIdx.x) * kFlatThreads + threadIdx.x;
  if (i < n / 4) {
    storePixels(d_out + 4 * i, loadPixels<4>(d_in + 4 * i));
  } else if (i == n / 4) {
#pragma unroll 1
    for (size_t k = 4 * i; k < n; ++k) d_out[k] = d_in[k];
  }
}

// out(i) = 255 where in(i) > threshold, else 0, for n pixels.
// A thread owns two quads, kFlatThreads apart, so that a warp's loads stay
// coalesced: both are read before the first is used. Four bytes leave in one
// store of 32 bits. 5 bytes a pixel.
// Launch: one dimension, n / 8 threads rounded up. With one quad a thread too
// few bytes are in flight, and 3% are lost.
constexpr int kThresholdQuads = 2;
__global__ void __launch_bounds__(kFlatThreads)
    thresholdWide(const float* d_in, unsigned char* d_out, size_t n,
                  float threshold) {
  const size_t first =
      static_cast<size_t>(blockIdx.x) * (kFlatThreads * kThresholdQuads) +
      threadIdx.x;
  Pixels<4> quad[kThresholdQuads];
#pragma unroll
  for (int k = 0; k < kThresholdQuads; ++k) {
    const size_t i = first + k * kFlatThreads;
    if (i < n / 4) quad[k] = loadPixels<4>(d_in + 4 * i);
  }
#pragma unroll
  for (int k = 0; k < kThresholdQuads; ++k) {
    const size_t i = first + k * kFlatThreads;
    if (i < n / 4) {
      storeBytes<4>(d_out + 4 * i, edgeBytes(quad[k], threshold));
    } else if (i == n / 4) {
#pragma unroll 1
      for (size_t p = 4 * i; p < n; ++p)
        d_out[p] = d_in[p] > threshold ? 255 : 0;
    }
  }
}

// Where a thread's window of kRows x kN outputs lies, in a block of 32 x 4
// such windows, and whether all that the block reads is inside the image.
template <int kN, int kRows, int kHalo>
struct Window {
  static constexpr int kBlockCols = kLanes * kN;
  static constexpr int kBlockRows = kStackedWarps * kRows;
  int row, col;
  bool inside;
  __device__ __forceinline__ Window(int rows, int cols) {
    const int left = blockIdx.x * kBlockCols, top = blockRow() * kBlockRows;
    row = top + threadIdx.y * kRows;
    col = left + threadIdx.x * kN;
    inside = top >= kHalo && top + kBlockRows + kHalo <= rows &&
             left >= kHalo && left + kBlockCols + kHalo <= cols;
  }
};

// Reads a window: its rows and kHalo more above and below, each with kHalo
// more columns on both sides. All loads are issued before the first value is
// used. A row costs one load of 16 bytes and two small ones, which find the
// neighbour's columns in the L1 cache.
template <int kN, int kRows, int kHalo, bool kInside>
__device__ __forceinline__ void loadWindow(
    Pixels<kN + 2 * kHalo> (&window)[kRows + 2 * kHalo], const float* d_in,
    int rows, int cols, int row, int col) {
#pragma unroll
  for (int i = 0; i < kRows + 2 * kHalo; ++i) {
    const int y = row + i - kHalo;
    const bool inRows = kInside || within(y, rows);
    const float* from = d_in + offsetOf(y, col, cols);
    float* to = window[i].v;
    const Pixels<kN> middle = loadPixels<kN>(orOutside(inRows, from));
#pragma unroll
    for (int k = 0; k < kN; ++k) to[kHalo + k] = middle.v[k];
    // With kN 4 a halo is one load, since it is all inside or all outside.
    constexpr int kStep = kN == 1 ? 1 : kHalo;
#pragma unroll
    for (int k = 0; k < kHalo; k += kStep) {
      const bool left = inRows & (kInside || within(col + k - kHalo, cols));
      const bool right = inRows & (kInside || within(col + kN + k, cols));
      const Pixels<kStep> a =
          loadPixels<kStep>(orOutside(left, from + k - kHalo));
      const Pixels<kStep> b =
          loadPixels<kStep>(orOutside(right, from + kN + k));
#pragma unroll
      for (int j = 0; j < kStep; ++j) {
        to[k + j] = a.v[j];
        to[kHalo + kN + k + j] = b.v[j];
      }
    }
  }
}

template <int kN, int kRows, bool kInside>
__device__ __forceinline__ void blurWindow(const float* d_in, float* d_out,
                                           int rows, int cols, int row,
                                           int col) {
  Pixels<kN + 4> window[kRows + 4];
  loadWindow<kN, kRows, 2, kInside>(window, d_in, rows, cols, row, col);
  BlurColumns<kN> blur;
#pragma unroll
  for (int i = 0; i < kRows + 4; ++i) {
    const Pixels<kN> blurred = blur.push(window[i]);
    const int y = row + i - 4;
    if (i >= 4 && (kInside || y < rows))
      storePixels(d_out + offsetOf(y, col, cols), blurred);
  }
}

// The blur of blurNaive, in registers.
// A thread owns kN columns of 8 rows. It reads 12 rows, so rows of neighbours
// are read 1.5 times, from the L1 cache but once; 48 loads for 32 outputs,
// where blurNaive has 25 for each. 8 bytes a pixel.
// Launch: 32 x 4 threads, a block owns 32 x 32 kN... pixels; 4 blocks a
// multiprocessor fit, with 128 registers a thread: each keeps 12 rows in
// flight, so few warps are enough.
constexpr int kBlurRows = 8;
template <int kN>
__global__ void __launch_bounds__(kLanes* kStackedWarps, 4)
    blurRegisters(const float* d_in, float* d_out, int rows, int cols) {
  const Window<kN, kBlurRows, 2> w(rows, cols);
  if (w.inside) {
    blurWindow<kN, kBlurRows, true>(d_in, d_out, rows, cols, w.row, w.col);
  } else if (w.row < rows && w.col < cols) {
    blurWindow<kN, kBlurRows, false>(d_in, d_out, rows, cols, w.row, w.col);
  }
}

// What becomes of gx^2 + gy^2: the magnitude, or the bytes of the edge image.
// limit is the largest square whose root is not above the threshold, so both
// ways give the same edges.
template <int kN>
__device__ __forceinline__ void storeGradient(float* p, Pixels<kN> square,
                                              float) {
#pragma unroll
  for (int i = 0; i < kN; ++i) square.v[i] = __fsqrt_rn(square.v[i]);
  storePixels(p, square);
}
template <int kN>
__device__ __forceinline__ void storeGradient(unsigned char* p,
                                              const Pixels<kN>& square,
                                              float limit) {
  storeBytes<kN>(p, edgeBytes(square, limit));
}

template <int kN, int kRows, bool kInside, class Out>
__device__ __forceinline__ void sobelWindow(const float* d_blur, Out* d_out,
                                            int rows, int cols, int row,
                                            int col, float limit) {
  Pixels<kN + 2> window[kRows + 2];
  loadWindow<kN, kRows, 1, kInside>(window, d_blur, rows, cols, row, col);
  SobelColumns<kN> sobel;
#pragma unroll
  for (int i = 0; i < kRows + 2; ++i) {
    const Pixels<kN> square = sobel.push(window[i]);
    const int y = row + i - 2;
    if (i >= 2 && (kInside || y < rows))
      storeGradient<kN>(d_out + offsetOf(y, col, cols), square, limit);
  }
}

// sobelMagnitude (Out is float) and sobelThreshold (Out is unsigned char), in
// registers.
// A thread owns kN columns of 4 rows and reads 6. 8 bytes a pixel, or 5.
// Launch: 32 x 4 threads, 64 registers a thread, 8 blocks a multiprocessor.
constexpr int kSobelRows = 4;
template <int kN, class Out>
__global__ void __launch_bounds__(kLanes* kStackedWarps, 8)
    sobelRegisters(const float* d_blur, Out* d_out, int rows, int cols,
                   float limit) {
  const Window<kN, kSobelRows, 1> w(rows, cols);
  if (w.inside) {
    sobelWindow<kN, kSobelRows, true>(d_blur, d_out, rows, cols, w.row, w.col,
                                      limit);
  } else if (w.row < rows && w.col < cols) {
    sobelWindow<kN, kSobelRows, false>(d_blur, d_out, rows, cols, w.row, w.col,
                                       limit);
  }
}

// The lane's pixels and kHalo more on each side, from the lanes beside it. All
// 32 lanes must call it. The outermost lanes get their own values back where
// there is no neighbour: what they compute is never stored.
template <int kHalo, int kN>
__device__ __forceinline__ Pixels<kN + 2 * kHalo> withNeighbours(
    const Pixels<kN>& own) {
  Pixels<kN + 2 * kHalo> wide;
#pragma unroll
  for (int i = 0; i < kN; ++i) wide.v[kHalo + i] = own.v[i];
#pragma unroll
  for (int k = 1; k <= kHalo; ++k) {  // k columns away, in the lane so far off:
    const int lanes = (k + kN - 1) / kN, from = (k - 1) % kN;
    wide.v[kHalo - k] = __shfl_up_sync(kAllLanes, own.v[kN - 1 - from], lanes);
    wide.v[kHalo + kN - 1 + k] =
        __shfl_down_sync(kAllLanes, own.v[from], lanes);
  }
  return wide;
}

// A warp's march over one band: bandRows rows of output, and three more read
// before and after them. Row i of the march is row first + i * step of the
// image; its blurred row is two back, its edges are three back.
struct Band {
  int first, step, rows;
  int col;      // the lane's first column
  bool writes;  // whether the lane's columns are the warp's to store
};
constexpr int kAhead = 4;  // rows that are read before they are needed

template <int kN, bool kInside>
__device__ __forceinline__ void pipelineBand(const float* d_in,
                                             unsigned char* d_edges, int rows,
                                             int cols, const Band& band,
                                             float limit) {
  const bool inCols = kInside || within(band.col, cols);
  const auto isInside = [&](int i) {
    return kInside || (inCols & within(band.first + i * band.step, rows));
  };
  // Both may point outside the image; they are followed only inside it.
  const ptrdiff_t stride = static_cast<ptrdiff_t>(band.step) * cols;
  const float* from = d_in + offsetOf(band.first, band.col, cols);
  unsigned char* to =
      d_edges + offsetOf(band.first, band.col, cols) + 3 * stride;

  Pixels<kN> ahead[kAhead];
  const auto readRow = [&](int i) {
    const Pixels<kN> p = loadPixels<kN>(orOutside(isInside(i), from));
    from += stride;
    return p;
  };
  BlurColumns<kN> blur;
  SobelColumns<kN> sobel;
  const auto useRow = [&](int i, int slot) {
    Pixels<kN> blurred = blur.push(withNeighbours<2>(ahead[slot]));
    if (!kInside) blurred = zeroUnless(isInside(i - 2), blurred);
    const Pixels<kN> square = sobel.push(withNeighbours<1>(blurred));
    const unsigned bytes = edgeBytes(square, limit);
    ahead[slot] = readRow(i + kAhead);
    return bytes;
  };

#pragma unroll
  for (int i = 0; i < kAhead; ++i) ahead[i] = readRow(i);
#pragma unroll
  for (int i = 0; i < 6; ++i) useRow(i, i % kAhead);
  const bool writes = band.writes & inCols;
#pragma unroll 1
  for (int i = 6; i < 6 + band.rows; i += kAhead) {
#pragma unroll
    for (int k = 0; k < kAhead; ++k) {
      const unsigned bytes = useRow(i + k, (6 + k) % kAhead);
      if (writes & isInside(i + k - 3)) storeBytes<kN>(to, bytes);
      to += stride;
    }
  }
}

// The whole pipeline in one kernel: blur, Sobel and threshold, 5 bytes a pixel.
// Nothing but edges is written, and the blurred image lives in registers.
// A warp reads strips of 32 kN columns (128) and writes all but the outermost
// lanes' (120): a lane gets its neighbours' pixels and blurred pixels by
// shuffles, and the outermost lack them. It marches over bandRows rows, so the
// work on the six rows around a band is shared by many. Odd bands are marched
// upward: then two bands read the rows between them at the same time, and the
// second read hits the cache. The bits do not depend on the direction.
// Launch: 32 x 4 threads, one warp a band and four bands above one another,
// 80 registers a thread, 6 blocks a multiprocessor; bandRows a multiple of
// kAhead. Every lane of a warp stays to the end, for the shuffles need all.
constexpr int kPipelineBlocks = 6;  // of a multiprocessor
template <int kN>
constexpr int kSideLanes = (3 + kN - 1) / kN;  // read, but not written
template <int kN>
constexpr int kStripCols = (kLanes - 2 * kSideLanes<kN>)*kN;

template <int kN>
__global__ void __launch_bounds__(kLanes* kStackedWarps, kPipelineBlocks)
    pipelineOneKernel(const float* d_in, unsigned char* d_edges, int rows,
                      int cols, int bandRows, float limit) {
  const int left = blockIdx.x * kStripCols<kN> - kSideLanes<kN> * kN;
  const int blockRows = kStackedWarps * bandRows;
  const int top = blockRow() * blockRows;
  if (top >= rows) return;
  const int lane = threadIdx.x, number = threadIdx.y;
  const bool up = number % 2 != 0;
  Band band;
  band.rows = bandRows;
  band.step = up ? -1 : 1;
  band.first = top + number * bandRows + (up ? bandRows + 2 : -3);
  band.col = left + lane * kN;
  band.writes = lane >= kSideLanes<kN> && lane < kLanes - kSideLanes<kN>;
  const int margin = 3 + kAhead;
  if (left >= 0 && left + kLanes * kN <= cols && top >= margin &&
      top + blockRows + margin <= rows) {
    pipelineBand<kN, true>(d_in, d_edges, rows, cols, band, limit);
  } else {
    pipelineBand<kN, false>(d_in, d_edges, rows, cols, band, limit);
  }
}

// Keeps one thread busy for `cycles` cycles of its multiprocessor, so that
// events around it give the clock. Not a stage: it measures the card.
__global__ void spinCycles(long long cycles, long long* d_spent) {
  const long long start = clock64();
  long long spent = 0;
  while (spent < cycles) spent = clock64() - start;
  *d_spent = spent;
}

// ============================================================ CPU references
//
// Plain loops, written to be read, not to be fast: integer taps, sums in
// double, one division. They allocate nothing. They are also the denominator
// of the printed speed-up, and a weak one.

// h_out(r, c) = sum of col[i] row[j] h_in(r + i - 2, c + j - 2) / 256, zero
// outside the image.
inline void blurReference(const float* h_in, float* h_out, size_t rows,
                          size_t cols, const Filters& filters) {
  for (size_t row = 0; row < rows; ++row) {
    for (size_t col = 0; col < cols; ++col) {
      double sum = 0.0;
      for (size_t i = 0; i < kTaps; ++i) {
        for (size_t j = 0; j < kTaps; ++j) {
          // Row -1 wraps to the largest size_t and so fails the same test.
          const size_t y = row + i - kRadius, x = col + j - kRadius;
          if (y < rows && x < cols) {
            sum += filters.col[i] * filters.row[j] *
                   static_cast<double>(h_in[y * cols + x]);
          }
        }
      }
      h_out[row * cols + col] = static_cast<float>(sum / (kTapSum * kTapSum));
    }
  }
}

// h_out(r, c) = hypot(gx, gy) of h_blur, zero outside the image.
inline void sobelReference(const float* h_blur, float* h_out, size_t rows,
                           size_t cols, const Filters& filters) {
  for (size_t row = 0; row < rows; ++row) {
    for (size_t col = 0; col < cols; ++col) {
      double gx = 0.0, gy = 0.0;
      for (size_t i = 0; i < 3; ++i) {
        for (size_t j = 0; j < 3; ++j) {
          const size_t y = row + i - kSobelRadius, x = col + j - kSobelRadius;
          if (y < rows && x < cols) {
            const double value = h_blur[y * cols + x];
            gx += filters.sobelX[i * 3 + j] * value;
            gy += filters.sobelY[i * 3 + j] * value;
          }
        }
      }
      h_out[row * cols + col] = static_cast<float>(std::hypot(gx, gy));
    }
  }
}

// h_edges = 255 where the magnitude is above the threshold, else 0.
inline void thresholdReference(const float* h_magnitude, unsigned char* h_edges,
                               size_t pixels, float threshold) {
  for (size_t i = 0; i < pixels; ++i) {
    h_edges[i] = h_magnitude[i] > threshold ? 255 : 0;
  }
}

// ------------------------------------------------------ the CPU, all threads
//
// The pipeline as a CPU wants it: every thread takes a band of rows, walks down
// it in tiles whose buffers stay in its L2 cache, and runs plain loops over
// separate arrays, which the compiler turns into vector instructions. Floats,
// and the square of the magnitude against the square of the threshold, as in
// the register kernels. The honest denominator of a speed-up.

constexpr size_t kCpuTile = 2048;  // columns; the buffers of a tile stay in L2

// Three passes along rows of n outputs. Plain loops over separate arrays: the
// compiler turns them into vector instructions.
inline void cpuRowPass(const float* in, float* out, size_t n) {
  for (size_t c = 0; c < n; ++c)
    out[c] = 6.0f * in[c + 2] +
             (4.0f * (in[c + 1] + in[c + 3]) + (in[c] + in[c + 4]));
}
inline void cpuColumnPass(const float* const (&in)[5], float* out, size_t n) {
  const float *a = in[0], *b = in[1], *p = in[2], *d = in[3], *e = in[4];
  for (size_t c = 0; c < n; ++c)
    out[c] = (6.0f * p[c] + (4.0f * (b[c] + d[c]) + (a[c] + e[c]))) *
             (1.0f / 256.0f);
}
inline void cpuGradientPass(const float* in, float* difference, float* smooth,
                            size_t n) {
  for (size_t c = 0; c < n; ++c) {
    difference[c] = in[c + 2] - in[c];
    smooth[c] = (in[c] + in[c + 1]) + (in[c + 1] + in[c + 2]);
  }
}
inline void cpuEdgePass(const float* d0, const float* d1, const float* d2,
                        const float* s0, const float* s2, unsigned char* out,
                        size_t n, float limit) {
  for (size_t c = 0; c < n; ++c) {
    const float gx = (d0[c] + d1[c]) + (d1[c] + d2[c]);
    const float gy = s2[c] - s0[c];
    out[c] = gx * gx + gy * gy > limit ? 255 : 0;
  }
}

inline void cpuTilePipeline(const float* h_in, unsigned char* h_out,
                            size_t rows, size_t cols, size_t firstRow,
                            size_t endRow, size_t firstCol, size_t endCol,
                            float limit) {
  float line[kCpuTile + 6], blurred[kCpuTile + 2];
  float sums[5][kCpuTile + 2];
  float difference[3][kCpuTile], smooth[3][kCpuTile];
  const size_t n = endCol - firstCol;
  const size_t left = std::min<size_t>(firstCol, 3);
  const size_t right = std::min<size_t>(cols - endCol, 3);
  std::fill(line, line + n + 6, 0.0f);
  const ptrdiff_t first = static_cast<ptrdiff_t>(firstRow);
  const ptrdiff_t end = static_cast<ptrdiff_t>(endRow);
  const auto inside = [rows](ptrdiff_t r) {
    return r >= 0 && r < static_cast<ptrdiff_t>(rows);
  };
  for (ptrdiff_t r = first - 3; r < end + 3; ++r) {
    float* sum = sums[(r + 5) % 5];
    if (!inside(r)) {
      std::fill(sum, sum + n + 2, 0.0f);
    } else {
      const float* from =
          h_in + static_cast<size_t>(r) * cols + firstCol - left;
      if (left + right < 6) {
        std::copy(from, from + left + n + right, line + 3 - left);
        from = line;
      }
      cpuRowPass(from, sum, n + 2);
    }
    const ptrdiff_t b = r - 2;  // the row that can be blurred now
    if (b < first - 1) continue;
    if (!inside(b)) {
      std::fill(blurred, blurred + n + 2, 0.0f);
    } else {
      cpuColumnPass({sums[(r + 1) % 5], sums[(r + 2) % 5], sums[(r + 3) % 5],
                     sums[(r + 4) % 5], sums[(r + 5) % 5]},
                    blurred, n + 2);
      if (firstCol == 0) blurred[0] = 0.0f;
      if (endCol == cols) blurred[n + 1] = 0.0f;
    }
    const size_t i0 = (b + 1) % 3, i1 = (b + 2) % 3, i2 = (b + 3) % 3;
    cpuGradientPass(blurred, difference[i2], smooth[i2], n);
    if (b < first + 1) continue;
    cpuEdgePass(difference[i0], difference[i1], difference[i2], smooth[i0],
                smooth[i2],
                h_out + static_cast<size_t>(b - 1) * cols + firstCol, n, limit);
  }
}

inline void cpuPipelineAllThreads(const float* h_in, unsigned char* h_out,
                                  size_t rows, size_t cols, float limit) {
  const size_t cores = std::max(1u, std::thread::hardware_concurrency());
  const size_t bands = std::min(cores, rows);
  const auto band = [=](size_t i) {
    for (size_t c = 0; c < cols; c += kCpuTile)
      cpuTilePipeline(h_in, h_out, rows, cols, rows * i / bands,
                      rows * (i + 1) / bands, c, std::min(c + kCpuTile, cols),
                      limit);
  };
  std::vector<std::thread> threads;
  for (size_t i = 1; i < bands; ++i) threads.emplace_back(band, i);
  band(0);
  for (std::thread& t : threads) t.join();
}

// ======================================================= Netpbm and pictures

// One image as its file stores it: rows x cols x channels samples, 1 byte each
// up to maxval 255, else 2 bytes, big-endian.
struct Netpbm {
  size_t rows = 0, cols = 0;
  int channels = 1;       // 1: grey; 3: red, green, blue
  unsigned maxval = 255;  // the sample that means white, 1 to 65535
  std::vector<unsigned char> raster;

  size_t bytesPerSample() const { return maxval > 255 ? 2 : 1; }
  size_t samples() const { return rows * cols * channels; }
};

// A file read byte by byte through one buffer, or in blocks past it. An error
// looks like the end of the file; `error` tells them apart.
struct ByteReader {
  std::FILE* file;
  std::uintmax_t size;        // of the whole file, kStream where unknown
  int error = 0;              // errno of the read that failed
  std::uintmax_t filled = 0;  // bytes that ever entered the buffer,
  size_t at = 0, end = 0;     // of which these are not yet taken
  unsigned char buffer[1 << 16];

  static constexpr std::uintmax_t kStream = UINTMAX_MAX;
  ByteReader(std::FILE* f, std::uintmax_t s) : file(f), size(s) {}

  std::uintmax_t left() const {
    return size - std::min(size, filled - (end - at));
  }
  int peek() {  // the next byte, left where it is, or EOF
    if (at == end) {
      at = 0;
      end = readPast(buffer, sizeof buffer);
      filled += end;
    }
    return at < end ? buffer[at] : EOF;
  }
  int get() {
    const int c = peek();
    at += c != EOF;
    return c;
  }
  size_t read(unsigned char* h_to, size_t count) {  // fewer only at the end
    const size_t buffered = std::min(count, end - at);
    std::memcpy(h_to, buffer + at, buffered);
    at += buffered;
    if (buffered == count) return count;
    return buffered + readPast(h_to + buffered, count - buffered);
  }
  size_t readPast(unsigned char* h_to, size_t count) {
    const size_t got = std::fread(h_to, 1, count, file);
    if (got < count && std::ferror(file)) error = errno;
    return got;
  }
};

inline std::string errnoText(int error) {
  return std::generic_category().message(error);
}

// What Netpbm calls white space: TAB, LF, VT, FF, CR and blank.
inline bool isNetpbmSpace(int c) {
  return c == ' ' || (c >= 9 && c <= 13);
}

// Skips white space and comments, which run from # to a CR or LF. False after
// kMaxGap bytes of them, so that an endless stream ends too.
constexpr size_t kMaxGap = 1 << 20;
inline bool skipGap(ByteReader& in) {
  bool comment = false;
  for (size_t skipped = 0; skipped < kMaxGap; ++skipped) {
    const int c = in.peek();
    if (c == '\n' || c == '\r') comment = false;
    if (c == '#') comment = true;
    if (c == EOF || !(comment || isNetpbmSpace(c))) return true;
    in.get();
  }
  return false;
}

// Reads one whole number of up to 18 digits, which fits 64 bits. Returns "" or
// a sentence that lacks its subject. `part` is what it belongs to.
inline std::string readNumber(ByteReader& in, const char* part,
                              std::uint64_t& value) {
  constexpr int kMaxDigits = 18;
  char text[kMaxDigits + 1];
  int length = 0;
  bool digits = true;
  value = 0;
  if (!skipGap(in)) return " is missing: 1 MiB of space and comments";
  for (int c = in.peek(); c != EOF && c != '#' && !isNetpbmSpace(c);
       c = in.peek()) {
    digits = digits && c >= '0' && c <= '9' && length < kMaxDigits;
    if (digits) value = 10 * value + static_cast<std::uint64_t>(c - '0');
    text[length++] = c > ' ' && c < 127 ? static_cast<char>(c) : '?';
    if (length > kMaxDigits) break;
    in.get();
  }
  if (length > 0 && digits) return "";
  if (length > 0) {
    return " is \"" + std::string(text, length) +
           (length > kMaxDigits ? "...\"" : "\"") +
           ", not a whole number of up to 18 digits";
  }
  return std::string(" is missing: the ") + part + " ends early";
}

// "" for P2, P3, P5 and P6, else what the file seems to be.
inline std::string refusedMagic(int first, int second) {
  static const struct {
    int first, second;
    const char* name;
  } kOthers[] = {{0x89, 'P', "PNG"},         {0xFF, 0xD8, "JPEG"},
                 {'G', 'I', "GIF"},          {'B', 'M', "BMP"},
                 {'I', 'I', "TIFF"},         {'M', 'M', "TIFF"},
                 {0xEF, 0xBB, "UTF-8 mark"}, {0xFF, 0xFE, "UTF-16 mark"}};
  static const struct {
    int kind;
    const char *name, *converter;
  } kRefused[] = {{'1', "P1, a plain bitmap", "pbmtopgm 1 1"},
                  {'4', "P4, a bitmap", "pbmtopgm 1 1"},
                  {'7', "P7, a PAM", "pamtopnm"},
                  {'f', "Pf, grey floats", "pfmtopam | pamtopnm"},
                  {'F', "PF, colour floats", "pfmtopam | pamtopnm"}};
  if (first == EOF || (first == 'P' && second == EOF)) {
    return "the magic number is missing: the header ends early";
  }
  if (first == 'P' && second > 0 && std::strchr("2356", second)) return "";
  for (const auto& refused : kRefused) {
    if (first != 'P' || second != refused.kind) continue;
    return std::string("this kind of Netpbm (") + refused.name +
           ") is not read; netpbm's \"" + refused.converter +
           "\" or ImageMagick makes it a PGM or PPM";
  }
  std::string guess;
  for (const auto& other : kOthers) {
    if (first != other.first || second != other.second) continue;
    guess = std::string(" (") + other.name + "?)";
  }
  char bytes[32];
  std::snprintf(bytes, sizeof bytes, second == EOF ? "0x%02X" : "0x%02X 0x%02X",
                first, second);
  return std::string("not Netpbm, starts ") + bytes + guess +
         "; ImageMagick makes most pictures a PGM or PPM";
}

inline std::string tooShort(std::uintmax_t need, std::uintmax_t have) {
  return "the raster needs " + std::to_string(need) + " bytes, the file has " +
         std::to_string(have);
}

// Where sample i lies: "the sample at row 0, col 2".
inline std::string placeOf(const Netpbm& image, size_t i) {
  static const char* const kNames[] = {", red", ", green", ", blue"};
  const size_t pixel = i / image.channels;
  return "the sample at row " + std::to_string(pixel / image.cols) + ", col " +
         std::to_string(pixel % image.cols) +
         (image.channels == 3 ? kNames[i % 3] : "");
}

inline std::string aboveMaxval(const Netpbm& image, size_t i,
                               std::uint64_t value) {
  return placeOf(image, i) + " is " + std::to_string(value) +
         ", above maxval " + std::to_string(image.maxval);
}

// P5 and P6: the one separator after maxval, then the samples as they are.
inline std::string readRaw(ByteReader& in, Netpbm& image, std::string& note) {
  int separator = in.get();
  for (size_t i = 0; separator == '#' && i < kMaxGap; ++i) {
    const int c = in.get();
    if (c == '\n' || c == '\r' || c == EOF) separator = c;
  }
  if (!isNetpbmSpace(separator)) {
    return "the white space after maxval is missing: the header ends early";
  }
  const size_t need = image.samples() * image.bytesPerSample();
  const std::uintmax_t have = in.left();
  if (have < need) return tooShort(need, have);
  // Block by block: the zeros of resize() are still in the cache when the block
  // is read, and a stream takes no more memory than it fills.
  constexpr size_t kBlock = 1 << 18;
  std::vector<unsigned char>& raster = image.raster;
  if (in.size != ByteReader::kStream) raster.reserve(need);
  while (raster.size() < need) {
    const size_t start = raster.size(), count = std::min(need - start, kBlock);
    raster.resize(start + count);
    const size_t got = in.read(raster.data() + start, count);
    if (got < count) return tooShort(need, start + got);
  }

  unsigned char tail[2];
  const size_t tailBytes = in.read(tail, sizeof tail);
  if (separator == '\r' && raster[0] == '\n' && tailBytes == 1) {
    return "Windows line ends: CR LF after maxval, then one byte too many; "
           "write the header with LF alone";
  }
  if (tailBytes == 2 && tail[0] == 'P' && tail[1] >= '1' && tail[1] <= '7') {
    note = "a second image is ignored";
  } else if (tailBytes > 0 && in.size == ByteReader::kStream) {
    note = "what is left over after the raster is ignored";
  } else if (tailBytes > 0) {
    const std::uintmax_t extra = have - need;
    note = std::to_string(extra) + (extra == 1 ? " byte" : " bytes") +
           " left over after the raster, ignored";
  }
  if (image.maxval == 255 || image.maxval == 65535) return "";
  const bool wide = image.bytesPerSample() == 2;
  for (size_t i = 0; i < image.samples(); ++i) {
    const unsigned value =
        wide ? raster[2 * i] << 8 | raster[2 * i + 1] : raster[i];
    if (value > image.maxval) return aboveMaxval(image, i, value);
  }
  return "";
}

// P2 and P3: decimal numbers, kept as the raw formats keep them.
inline std::string readPlain(ByteReader& in, Netpbm& image, std::string& note) {
  const size_t samples = image.samples(), size = image.bytesPerSample();
  const std::uintmax_t have = in.left();
  const bool fits = have / 2 >= samples;  // a blank and a digit each
  if (fits && in.size != ByteReader::kStream) {
    image.raster.reserve(samples * size);
  }
  for (size_t i = 0; i < samples; ++i) {
    std::uint64_t value = 0;
    std::string error = readNumber(in, "raster", value);
    if (!error.empty()) {
      error = placeOf(image, i) + error;
      return fits ? error : error + "; " + tooShort(2 * samples, have);
    }
    if (value > image.maxval) return aboveMaxval(image, i, value);
    if (size == 2) image.raster.push_back(value >> 8 & 255);
    image.raster.push_back(value & 255);
  }
  skipGap(in);
  const int next = in.peek();
  if (next == 'P') note = "a second image is ignored";
  if (next != EOF && next != 'P') note = "text after the raster is ignored";
  return "";
}

// The first image of an open file.
inline std::string readNetpbm(ByteReader& in, Netpbm& image,
                              std::string& note) {
  const int first = in.get(), kind = in.get();
  std::string error = refusedMagic(first, kind);
  if (!error.empty()) return error;
  image.channels = kind == '3' || kind == '6' ? 3 : 1;

  static const char* const kNames[] = {"width", "height", "maxval"};
  std::uint64_t header[3];
  for (int i = 0; i < 3; ++i) {
    error = readNumber(in, "header", header[i]);
    if (error.empty() && header[i] == 0) error = " is 0";
    if (!error.empty()) return kNames[i] + error;
  }
  if (header[2] > 65535) {
    return "maxval is " + std::to_string(header[2]) + ", above 65535";
  }
  // Leaves room for 64 bytes a pixel, so that no later product overflows.
  if (header[0] > SIZE_MAX / 64 / header[1]) {
    return std::to_string(header[0]) + " x " + std::to_string(header[1]) +
           " pixels are more than memory can address";
  }
  image.cols = static_cast<size_t>(header[0]);
  image.rows = static_cast<size_t>(header[1]);
  image.maxval = static_cast<unsigned>(header[2]);
  return kind < '5' ? readPlain(in, image, note) : readRaw(in, image, note);
}

// Reads the first image of a P2, P3, P5 or P6 file. Returns "" or the reason
// why not, in words that follow the file's name; `note` gets remarks.
inline std::string readNetpbm(const std::string& path, Netpbm& image,
                              std::string& note) {
  image = Netpbm{};
  note.clear();
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) return "is a directory";
  std::FILE* file = std::fopen(path.c_str(), "rb");
  if (!file) return "cannot be opened: " + errnoText(errno);
  const bool regular = std::filesystem::is_regular_file(path, ignored);
  ByteReader in(file, regular ? std::filesystem::file_size(path, ignored)
                              : ByteReader::kStream);
  std::string error;
  try {
    error = readNetpbm(in, image, note);
  } catch (const std::bad_alloc&) {
    error = "needs more memory than this machine gives";
  }
  std::fclose(file);
  return in.error ? "cannot be read: " + errnoText(in.error) : error;
}

template <int kChannels, int kBytes>
void greySamples(const Netpbm& image, float* h_grey) {
  const unsigned char* h_in = image.raster.data();
  const size_t pixels = image.rows * image.cols;
  const double white = 1000.0 * image.maxval;
  for (size_t i = 0; i < pixels; ++i, h_in += kChannels * kBytes) {
    const auto sample = [h_in](int c) {
      return kBytes == 1 ? h_in[c] : h_in[2 * c] << 8 | h_in[2 * c + 1];
    };
    const int thousandths =
        kChannels == 1 ? 1000 * sample(0)
                       : 299 * sample(0) + 587 * sample(1) + 114 * sample(2);
    h_grey[i] = static_cast<float>(thousandths / white);
  }
}

// Grey 0 to 1, row-major: 0.299 R + 0.587 G + 0.114 B over maxval. The weights
// are whole thousandths, so white is exactly 1 and grey colour exactly grey.
inline void greyFromNetpbm(const Netpbm& image, float* h_grey) {
  const bool wide = image.bytesPerSample() == 2;
  if (image.channels == 1) {
    wide ? greySamples<1, 2>(image, h_grey) : greySamples<1, 1>(image, h_grey);
  } else {
    wide ? greySamples<3, 2>(image, h_grey) : greySamples<3, 1>(image, h_grey);
  }
}

// Writes P5 (1 channel) or P6 (3), 8-bit, whole or not at all: into a new file
// beside `path` that takes its name when all is written. What is there and is
// no regular file (a pipe, /dev/null) is written to as it is. Returns "" or the
// reason why not, in words that follow the file's name.
inline std::string writeNetpbm(const std::string& path,
                               const unsigned char* h_samples, size_t rows,
                               size_t cols, int channels) {
  namespace fs = std::filesystem;
  const auto write = [&](std::FILE* file) -> std::string {
    const size_t count = rows * cols * channels;
    bool done = file && std::fprintf(file, "P%d\n%zu %zu\n255\n",
                                     channels == 3 ? 6 : 5, cols, rows) > 0;
    done = done && std::fwrite(h_samples, 1, count, file) == count;
    done = done && std::fflush(file) == 0;
    int error = errno;
    if (file && file != stdout && std::fclose(file) != 0 && done) {
      error = errno;
      done = false;
    }
    return done ? "" : "cannot be written: " + errnoText(error);
  };
  if (path == "/dev/stdout") return write(stdout);
  std::error_code error;
  const fs::file_status old = fs::status(path, error);
  if (fs::exists(old)) {
    // A regular file is opened too, but only to learn whether we may.
    const bool regular = fs::is_regular_file(old);
    std::FILE* file = std::fopen(path.c_str(), regular ? "r+b" : "wb");
    if (!regular || !file) return write(file);
    std::fclose(file);
  }

  fs::path target = path;  // of a symbolic link, what it points to
  for (int i = 0; i < 40 && fs::is_symlink(target, error); ++i) {
    target = target.parent_path() / fs::read_symlink(target, error);
  }
  std::FILE* file = nullptr;
  fs::path part;
  for (int i = 0; !file && i < 1000; ++i) {
    part = target.parent_path() / ("day20_" + std::to_string(i) + ".part");
    file = std::fopen(part.string().c_str(), "wbx");  // x: never an old file
    if (!file && errno != EEXIST) break;
  }
  const bool opened = file != nullptr;
  std::string reason = write(file);
  if (reason.empty()) {
    if (fs::exists(old)) fs::permissions(part, old.permissions(), error);
    fs::rename(part, target, error);
    if (error) reason = "cannot be written: " + error.message();
  }
  if (!reason.empty() && opened) fs::remove(part, error);
  return reason;
}

// The generated picture: land and sea with long curved coasts, bytes, exact.
// Coasts are a step of about 0.45, so the blurred gradient there is well above
// the threshold, and the texture's well below it. `shift` moves the coasts, for
// a run with a seed; 0 gives the lesson's picture.
inline void generatePicture(size_t rows, size_t cols, double shift,
                            unsigned char* h_bytes) {
  for (size_t row = 0; row < rows; ++row) {
    for (size_t col = 0; col < cols; ++col) {
      const double x = static_cast<double>(col) / cols + shift;
      const double y = static_cast<double>(row) / rows;
      const double land =
          std::sin(6.1 * x + 0.7) * std::cos(4.3 * y - 1.1) +
          0.62 * std::sin(11.7 * x - 2.0) * std::cos(9.1 * y + 0.4) +
          0.31 * std::sin(19.3 * (x + 0.6 * y)) +
          0.18 * std::cos(27.5 * (y - 0.4 * x));
      const double grain =
          0.5 + 0.5 * std::sin(83.0 * x + 51.0 * y) * std::cos(67.0 * y);
      const double value =
          land > 0.0 ? 0.62 + 0.16 * grain : 0.10 + 0.10 * grain;
      h_bytes[row * cols + col] =
          static_cast<unsigned char>(value * 255.0 + 0.5);
    }
  }
}

// 0..1 to a byte, rounded to nearest.
inline unsigned char byteOf(float value) {
  return static_cast<unsigned char>(std::clamp(value, 0.0f, 1.0f) * 255.0f +
                                    0.5f);
}

// ======================================================= the table of stages

// The images of the lesson. All are float but the edges, which are bytes.
enum class Image { kInput, kBlur, kMagnitude, kEdges };

// How many output pixels a block and a thread of a stage own, each way.
// Failure reports use it to name the block and thread behind a pixel.
struct Tile {
  int rows = kTile, cols = kTile;
  int rowsPerThread = 1, colsPerThread = 1;
  int firstLane = 0;    // the first that owns pixels
  bool flat = false;    // the image is one long row of blocks of `cols` pixels
  bool turned = false;  // threadIdx.x runs down the rows
};

// What a stage's launch gets: device memory, sizes, the threshold.
struct Job {
  const float* d_in;       // the image the stage reads
  float* d_floats;         // its output, if it writes a float image
  unsigned char* d_bytes;  // its output, if it writes edges
  float* d_scratch;        // one float image for what passes between kernels
  size_t rows, cols;
  float threshold;
  size_t pixels() const { return rows * cols; }
  dim3 grid() const { return dim3(tilesOver(cols), tilesOver(rows)); }
};
const dim3 kBlock(kTile, kTile);

// Where a stage's taps come from. Those with taps fixed in their code can't
// take part in the skew case.
enum class Taps { kConstantMemory, kFixed };

// One row of the table.
struct Stage {
  const char* label;
  size_t bytesPerPixel;  // that it must move, whatever the caches do
  Image reads, writes;
  Taps taps;
  Tile tile;
  void (*launch)(const Job&);
  // Kernels that must give the same bits by another way, if there are any.
  void (*twin)(const Job&) = nullptr;
  // Labels of the rows that it runs one after the other, if it is a chain.
  std::vector<const char*> parts = {};
  // The tile, where it depends on the image's size.
  Tile (*tileFor)(size_t rows, size_t cols) = nullptr;
};

inline Tile tileOf(const Stage& stage, size_t rows, size_t cols) {
  return stage.tileFor ? stage.tileFor(rows, cols) : stage.tile;
}

// Rows that later lines of the output refer to.
constexpr const char* kCopyRow = "copy (the baseline)";
constexpr const char* kPitch36Row = "blur, tiled, pitch 36";
constexpr const char* kPitch37Row = "blur, tiled, pitch 37 (padded)";
constexpr const char* kSeparableRow = "blur, separable, one kernel";
constexpr const char* kSobelRow = "sobel magnitude";
constexpr const char* kThresholdRow = "threshold";
constexpr const char* kFusedRow = "sobel + threshold, fused";
constexpr const char* kPipelineRow = "pipeline, blur + fused";
constexpr const char* kRegisterBlurRow = "blur, registers";
constexpr const char* kRegisterFusedRow = "sobel + threshold, registers";
constexpr const char* kOneKernelRow = "pipeline, one kernel";
constexpr const char* kCpuRow = "CPU, one thread, whole pipeline";
constexpr const char* kCpuAllRow = "CPU, all threads, whole pipeline";

// Each launch once, whichever rows use it.
inline void launchCopy(const Job& job) {
  const dim3 grid(tilesOver(job.cols),
                  static_cast<unsigned>(divideUp(job.rows, kCopyRows)));
  copyPixels<<<grid, dim3(kTile, kCopyRows)>>>(job.d_in, job.d_floats, job.rows,
                                               job.cols);
}
inline void launchBlurNaive(const Job& job) {
  blurNaive<<<job.grid(), kBlock>>>(job.d_in, job.d_floats, job.rows, job.cols);
}
inline void launchBlurSeparable(const Job& job) {
  blurSeparable<<<job.grid(), kBlock>>>(job.d_in, job.d_floats, job.rows,
                                        job.cols);
}
inline void launchBlurTiled(const Job& job, float* d_out, int pitch) {
  blurTiled<<<job.grid(), kBlock, kApron * pitch * sizeof(float)>>>(
      job.d_in, d_out, job.rows, job.cols, pitch);
}
inline void launchSobel(const Job& job, float* d_out) {
  sobelMagnitude<<<job.grid(), kBlock>>>(job.d_in, d_out, job.rows, job.cols);
}
inline void launchThreshold(const Job& job, const float* d_magnitude) {
  thresholdEdges<<<job.grid(), kBlock>>>(d_magnitude, job.d_bytes, job.rows,
                                         job.cols, job.threshold);
}
inline void launchFused(const Job& job, const float* d_blur) {
  sobelThreshold<<<job.grid(), kBlock>>>(d_blur, job.d_bytes, job.rows,
                                         job.cols, job.threshold);
}
inline void launchSobelThenThreshold(const Job& job) {
  launchSobel(job, job.d_scratch);
  launchThreshold(job, job.d_scratch);
}
inline void launchPipeline(const Job& job) {
  launchBlurTiled(job, job.d_scratch, kPitch);
  launchFused(job, job.d_scratch);
}

// The largest float whose square root, rounded, is not above the threshold:
// square > limit exactly where sqrt(square) > threshold.
inline float largestSquare(float threshold) {
  if (threshold < 0.0f) return -1.0f;  // every magnitude is above it
  float square = threshold * threshold;
  while (std::sqrt(square) > threshold) square = std::nextafter(square, 0.0f);
  while (square < INFINITY &&
         std::sqrt(std::nextafter(square, INFINITY)) <= threshold) {
    square = std::nextafter(square, INFINITY);
  }
  return square;
}

// A grid of blocks of 32 x 4 threads; what is too much for y goes on in z.
const dim3 kStackedBlock(kLanes, kStackedWarps);
inline dim3 stackedGrid(size_t across, size_t down) {
  const size_t z = divideUp(down, 65535);
  return dim3(static_cast<unsigned>(across),
              static_cast<unsigned>(divideUp(down, z)),
              static_cast<unsigned>(z));
}

// Calls `launch` with the number of columns a thread owns: 4 where every row
// starts at 16 bytes, else 1.
template <class Launch>
void byWidth(size_t cols, const Launch& launch) {
  if (cols % 4 == 0) {
    launch(std::integral_constant<int, 4>());
  } else {
    launch(std::integral_constant<int, 1>());
  }
}

// Threads in one dimension, `quads` float4 each, and one for the rest.
inline unsigned flatGrid(const Job& job, int quads) {
  return static_cast<unsigned>(
      divideUp(job.pixels() / 4 + 1, kFlatThreads * quads));
}
inline void launchCopyWide(const Job& job) {
  copyWide<<<flatGrid(job, 1), kFlatThreads>>>(job.d_in, job.d_floats,
                                               job.pixels());
}
inline void launchThresholdWide(const Job& job, const float* d_magnitude) {
  thresholdWide<<<flatGrid(job, kThresholdQuads), kFlatThreads>>>(
      d_magnitude, job.d_bytes, job.pixels(), job.threshold);
}

template <int kN, int kRows>
Tile windowTile() {
  return {kStackedWarps * kRows, kLanes * kN, kRows, kN};
}
template <int kRows>
Tile windowTileFor(size_t, size_t cols) {
  return cols % 4 == 0 ? windowTile<4, kRows>() : windowTile<1, kRows>();
}
inline dim3 windowGrid(const Job& job, const Tile& tile) {
  return stackedGrid(divideUp(job.cols, tile.cols),
                     divideUp(job.rows, tile.rows));
}
inline void launchBlurRegisters(const Job& job, float* d_out) {
  byWidth(job.cols, [&](auto width) {
    constexpr int kN = decltype(width)::value;
    blurRegisters<kN>
        <<<windowGrid(job, windowTile<kN, kBlurRows>()), kStackedBlock>>>(
            job.d_in, d_out, static_cast<int>(job.rows),
            static_cast<int>(job.cols));
  });
}
// Out is float for magnitudes, unsigned char for edges.
template <class Out>
void launchSobelRegisters(const Job& job, const float* d_blur, Out* d_out) {
  byWidth(job.cols, [&](auto width) {
    constexpr int kN = decltype(width)::value;
    sobelRegisters<kN, Out>
        <<<windowGrid(job, windowTile<kN, kSobelRows>()), kStackedBlock>>>(
            d_blur, d_out, static_cast<int>(job.rows),
            static_cast<int>(job.cols), largestSquare(job.threshold));
  });
}
inline void launchTwoRegisterKernels(const Job& job) {
  launchBlurRegisters(job, job.d_scratch);
  launchSobelRegisters(job, job.d_scratch, job.d_bytes);
}

// The same edges from separate kernels. The magnitude has the float output for
// its scratch, since the stage that this is a twin of writes bytes.
inline void launchStagedRegisters(const Job& job, const float* d_blur) {
  launchSobelRegisters(job, d_blur, job.d_floats);
  launchThresholdWide(job, job.d_floats);
}
inline void launchAllStagedRegisters(const Job& job) {
  launchBlurRegisters(job, job.d_scratch);
  launchStagedRegisters(job, job.d_scratch);
}

// Rows that a warp marches over. Long bands waste less on the six rows around
// them; the card wants a warp for each of its slots. So: what fills the card
// once, but no fewer than 8, and no more than 48, from where on length gains
// nothing and a few long warps would keep the card waiting at the end.
inline int bandRowsFor(size_t rows, size_t strips) {
  static const int multiprocessors = [] {
    int device = 0, count = 1;
    cudaGetDevice(&device);
    cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device);
    return count;
  }();
  const size_t blocks = static_cast<size_t>(multiprocessors) * kPipelineBlocks;
  const size_t bands = std::max<size_t>(1, blocks / strips) * kStackedWarps;
  return static_cast<int>(std::clamp<size_t>(
      divideUp(divideUp(rows, bands), kAhead) * kAhead, 8, 48));
}
template <int kN>
Tile stripTile(size_t rows, size_t cols) {
  const int band = bandRowsFor(rows, divideUp(cols, kStripCols<kN>));
  return {kStackedWarps * band, kStripCols<kN>, band, kN, kSideLanes<kN>};
}
inline Tile stripTileFor(size_t rows, size_t cols) {
  return cols % 4 == 0 ? stripTile<4>(rows, cols) : stripTile<1>(rows, cols);
}
inline void launchOneKernel(const Job& job) {
  byWidth(job.cols, [&](auto width) {
    constexpr int kN = decltype(width)::value;
    const Tile tile = stripTile<kN>(job.rows, job.cols);
    pipelineOneKernel<kN><<<windowGrid(job, tile), kStackedBlock>>>(
        job.d_in, job.d_bytes, static_cast<int>(job.rows),
        static_cast<int>(job.cols), tile.rowsPerThread,
        largestSquare(job.threshold));
  });
}

// The table. To add a kernel, write it above, and name it here.
// clang-format off
inline std::vector<Stage> lessonStages() {
  const Tile tile = {}, copyTile = {kCopyRows, kTile};
  const Tile flatTile = {1, 4 * kFlatThreads, 1, 4, 0, true};
  const Tile flatTwice = {1, kThresholdQuads * flatTile.cols, 1, 4, 0, true};
  const Taps taps = Taps::kConstantMemory, fixed = Taps::kFixed;
  return {
      // label, bytes a pixel, what it reads and writes, taps, tile, launch
      {kCopyRow, 8, Image::kInput, Image::kInput, taps, copyTile, launchCopy},
      {"blur, naive", 8, Image::kInput, Image::kBlur, taps, tile,
       launchBlurNaive},
      {kPitch36Row, 8, Image::kInput, Image::kBlur, taps, tile,
       [](const Job& job) { launchBlurTiled(job, job.d_floats, kPitch); }},
      {kPitch37Row, 8, Image::kInput, Image::kBlur, taps, tile,
       [](const Job& job) { launchBlurTiled(job, job.d_floats, kPaddedPitch); }},
      {kSeparableRow, 8, Image::kInput, Image::kBlur, taps, tile,
       launchBlurSeparable},
      {kSobelRow, 8, Image::kBlur, Image::kMagnitude, taps, tile,
       [](const Job& job) { launchSobel(job, job.d_floats); }},
      {kThresholdRow, 5, Image::kMagnitude, Image::kEdges, taps, tile,
       [](const Job& job) { launchThreshold(job, job.d_in); }},
      {"sobel + threshold, two kernels", 13, Image::kBlur, Image::kEdges, taps,
       tile, launchSobelThenThreshold, nullptr, {kSobelRow, kThresholdRow}},
      {kFusedRow, 5, Image::kBlur, Image::kEdges, taps, tile,
       [](const Job& job) { launchFused(job, job.d_in); },
       launchSobelThenThreshold},
      {kPipelineRow, 13, Image::kInput, Image::kEdges, taps, tile,
       launchPipeline, nullptr, {kPitch36Row, kFusedRow}},

      // The same work at copy speed. Their taps are fixed in the code.
      {"copy, 16 bytes a thread", 8, Image::kInput, Image::kInput, taps,
       flatTile, launchCopyWide},
      {kRegisterBlurRow, 8, Image::kInput, Image::kBlur, fixed, tile,
       [](const Job& job) { launchBlurRegisters(job, job.d_floats); },
       nullptr, {}, windowTileFor<kBlurRows>},
      {"sobel magnitude, registers", 8, Image::kBlur, Image::kMagnitude, fixed,
       tile,
       [](const Job& job) { launchSobelRegisters(job, job.d_in, job.d_floats); },
       nullptr, {}, windowTileFor<kSobelRows>},
      {"threshold, 4 pixels a thread", 5, Image::kMagnitude, Image::kEdges,
       taps, flatTwice,
       [](const Job& job) { launchThresholdWide(job, job.d_in); }},
      {kRegisterFusedRow, 5, Image::kBlur, Image::kEdges, fixed, tile,
       [](const Job& job) { launchSobelRegisters(job, job.d_in, job.d_bytes); },
       [](const Job& job) { launchStagedRegisters(job, job.d_in); },
       {}, windowTileFor<kSobelRows>},
      {"pipeline, two register kernels", 13, Image::kInput, Image::kEdges,
       fixed, tile, launchTwoRegisterKernels, launchAllStagedRegisters,
       {kRegisterBlurRow, kRegisterFusedRow}, windowTileFor<kSobelRows>},
      {kOneKernelRow, 5, Image::kInput, Image::kEdges, fixed, tile,
       launchOneKernel, launchAllStagedRegisters, {}, stripTileFor},
  };
}
// clang-format on

// How far an output of the stage reaches into what it reads, in pixels.
inline size_t reachOf(const Stage& stage) {
  const bool blurs =
      stage.reads == Image::kInput && stage.writes != Image::kInput;
  const bool differentiates =
      stage.reads != Image::kMagnitude &&
      (stage.writes == Image::kMagnitude || stage.writes == Image::kEdges);
  return (blurs ? kRadius : 0) + (differentiates ? kSobelRadius : 0);
}

// ================================================================= comparing

// One wrong pixel: what came, what was due, how far apart they may be.
struct Mismatch {
  size_t index;
  double got, want, allowed;
};

// What comparing an image with its reference found.
struct Comparison {
  size_t pixels = 0;
  size_t wrong = 0;      // all that fail, for whatever reason
  size_t unwritten = 0;  // still hold the poison
  size_t notFinite = 0;  // NaN or infinity
  size_t onlyAgain = 0;  // right in the first run, wrong in the second
  size_t forgiven = 0;   // edges that differ within the band
  size_t firstUnwritten = 0;
  double worst = 0.0;  // largest finite error, and where
  size_t worstIndex = 0;
  std::vector<Mismatch> first;      // the first five that are wrong
  std::vector<unsigned char> mask;  // 1 where wrong; empty if none is

  bool tooManyForgiven() const { return forgiven > kForgiveShare * pixels; }
  bool passed() const { return wrong == 0 && !tooManyForgiven(); }
  void addWrong(const Mismatch& mismatch) {
    if (mask.empty()) mask.assign(pixels, 0);
    mask[mismatch.index] = 1;
    if (++wrong <= 5) first.push_back(mismatch);
  }
  void addUnwritten(const Mismatch& mismatch) {
    if (unwritten++ == 0) firstUnwritten = mismatch.index;
    addWrong(mismatch);
  }
};

// 0xFF in every byte: what a float output holds before a checked launch. It is
// a NaN that no arithmetic produces.
constexpr uint32_t kPoison = 0xFFFFFFFFu;

inline uint32_t bitsOf(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}
// By its bits, so that no compiler option can assume the answer.
inline bool isFinite(float value) {
  return (bitsOf(value) & 0x7F800000u) != 0x7F800000u;
}

// Compares a float image with its reference: |got - want| <= absolute +
// kRelative |want|, written so that NaN and infinity fail. Where h_again is
// given, it is a second run, over 0x00 instead of 0xFF, and must pass as well;
// a pixel that keeps both poisons was never written. With one run, one that
// keeps 0xFF was not.
inline Comparison compareFloats(const float* h_got, const float* h_want,
                                size_t pixels, double absolute,
                                const float* h_again = nullptr) {
  Comparison found;
  found.pixels = pixels;
  for (size_t i = 0; i < pixels; ++i) {
    const double want = h_want[i];
    const double allowed = absolute + kRelative * std::fabs(want);
    const auto errorOf = [&](float got) {
      return isFinite(got) ? std::fabs(got - want) : INFINITY;
    };
    double got = h_got[i], error = errorOf(h_got[i]);
    const bool late = h_again && error <= allowed;
    if (late) {
      got = h_again[i];
      error = errorOf(h_again[i]);
    }
    if (error > found.worst && error < INFINITY) {
      found.worst = error;
      found.worstIndex = i;
    }
    if (error <= allowed) continue;
    if (bitsOf(h_got[i]) == kPoison && (!h_again || bitsOf(h_again[i]) == 0)) {
      found.addUnwritten({i, got, want, allowed});
    } else {
      found.notFinite += !(error < INFINITY);
      found.onlyAgain += late;
      found.addWrong({i, got, want, allowed});
    }
  }
  return found;
}

// Compares a byte image of two runs, one over 0xFF and one over 0x00, with its
// reference. A byte that keeps both poisons was never written. Where
// h_magnitude is given, a byte of 0 or 255 may differ within kForgiveBand of
// the threshold, and is counted.
inline Comparison compareBytes(const unsigned char* h_got,
                               const unsigned char* h_again,
                               const unsigned char* h_want, size_t pixels,
                               const float* h_magnitude, float threshold) {
  Comparison found;
  found.pixels = pixels;
  for (size_t i = 0; i < pixels; ++i) {
    const int want = h_want[i], first = h_got[i], second = h_again[i];
    if (first == want && second == want) continue;
    const bool late = first == want;
    const int got = late ? second : first;
    const Mismatch mismatch = {i, double(got), double(want), 0.0};
    if (std::abs(first - second) == 255) {
      found.addUnwritten(mismatch);
    } else if (first == second && (got == 0 || got == 255) && h_magnitude &&
               std::fabs(double(h_magnitude[i]) - threshold) <= kForgiveBand) {
      ++found.forgiven;
    } else {
      const double error = std::abs(got - want);
      if (error > found.worst) {
        found.worst = error;
        found.worstIndex = i;
      }
      found.onlyAgain += late;
      found.addWrong(mismatch);
    }
  }
  return found;
}

// Where a comparison took place, for the report.
struct Place {
  const char* stage;
  std::string caseName;
  size_t rows, cols;
  Tile tile;
  size_t reach;  // of the stage, in pixels
};

// The smallest region that holds every wrong pixel often names the fault. Each
// region is a test on (row, col) and the words that go with it.
inline std::string guessFromRegion(const Place& at, const Comparison& found) {
  if (at.tile.flat) return "";
  const size_t reach = std::max<size_t>(at.reach, 1);
  const size_t lastTileRow = (at.rows - 1) / at.tile.rows * at.tile.rows;
  const size_t lastTileCol = (at.cols - 1) / at.tile.cols * at.tile.cols;
  const bool partial =
      at.rows % at.tile.rows != 0 || at.cols % at.tile.cols != 0;
  struct Region {
    const char* name;
    const char* words;
    std::function<bool(size_t, size_t)> holds;
  };
  const auto nearSeam = [&](size_t at_, size_t extent, size_t tile) {
    const size_t in = at_ % tile;
    return (in < reach && at_ >= tile) ||
           (in + reach >= tile && at_ + reach < extent);
  };
  const Region regions[] = {
      {"the border ring of the image",
       "another border rule than the one asked for?",
       [&](size_t row, size_t col) {
         return row < reach || col < reach || row + reach >= at.rows ||
                col + reach >= at.cols;
       }},
      {"the seams between tiles", "the halo: is every side of it loaded?",
       [&](size_t row, size_t col) {
         return nearSeam(row, at.rows, at.tile.rows) ||
                nearSeam(col, at.cols, at.tile.cols);
       }},
      {"the last, partial tiles",
       "the guard, or threads that leave before the barrier?",
       [&](size_t row, size_t col) {
         return partial && ((row >= lastTileRow && at.rows % at.tile.rows) ||
                            (col >= lastTileCol && at.cols % at.tile.cols));
       }},
  };
  std::string guess;
  size_t smallest = at.rows * at.cols * 9 / 10;
  for (const Region& region : regions) {
    size_t size = 0, outside = 0;
    for (size_t row = 0; row < at.rows; ++row) {
      for (size_t col = 0; col < at.cols; ++col) {
        const bool holds = region.holds(row, col);
        size += holds;
        outside += !holds && found.mask[row * at.cols + col];
      }
    }
    if (outside != 0 || size == 0 || size > smallest) continue;
    smallest = size;
    char text[256];
    snprintf(text, sizeof text,
             "%s (all %zu wrong pixels lie in %s, %.1f%% of the image)",
             region.words, found.wrong, region.name,
             100.0 * size / (at.rows * at.cols));
    guess = text;
  }
  return guess;
}

// Whether got / want is one number wherever want is not small.
inline std::string guessFromRatio(const std::vector<float>& h_got,
                                  const float* h_want) {
  double low = INFINITY, high = -INFINITY;
  for (size_t i = 0; i < h_got.size(); ++i) {
    if (h_want[i] < 0.05f) continue;
    const double ratio = static_cast<double>(h_got[i]) / h_want[i];
    low = std::min(low, ratio);
    high = std::max(high, ratio);
  }
  char text[160];
  const double off = std::max(std::fabs(low - 1.0), std::fabs(high - 1.0));
  if (off <= 5e-3 && high - low > off / 4) {
    snprintf(text, sizeof text,
             "precision: half precision, or a value rounded on its way? (got "
             "is within %.1e of want everywhere)",
             off);
    return text;
  }
  if (!(high - low <= 1e-3 * std::fabs(high)) || high == 0.0) return "";
  snprintf(text, sizeof text,
           "normalisation: what do the taps sum to? (got / want is %.4f "
           "everywhere)",
           (low + high) / 2);
  return text;
}

// A mistake that gives a known image: other taps, a border that clamps, or one
// pass run twice.
struct Suspect {
  const char* words;
  Filters filters;
  bool clamps;
  bool twice = false;
};

inline std::vector<Suspect> suspectsFor(const Filters& right) {
  const int alone[kTaps] = {0, 0, kTapSum, 0, 0};
  Suspect rowOnly{"the row pass alone: the column pass is skipped", right,
                  false};
  Suspect colOnly{"the column pass alone: the row pass is skipped", right,
                  false};
  Suspect rowTwice{"the row taps along both axes", right, false};
  Suspect colTwice{"the column taps along both axes", right, false};
  Suspect swapped{"the transposed filter: row and column taps exchanged", right,
                  false};
  Suspect flipped{"the filter flipped: taps run backwards", right, false};
  Suspect clamped{"your border looks like clamping: the edge pixel repeats",
                  right, true};
  Suspect noX{"gy alone: gx is missing", right, false};
  Suspect noY{"gx alone: gy is missing", right, false};
  Suspect identity{"the input unchanged: no filter ran", right, false};
  for (int i = 0; i < kTaps; ++i) {
    rowOnly.filters.col[i] = colOnly.filters.row[i] = alone[i];
    identity.filters.row[i] = identity.filters.col[i] = alone[i];
    rowTwice.filters.col[i] = right.row[i];
    colTwice.filters.row[i] = right.col[i];
    swapped.filters.row[i] = right.col[i];
    swapped.filters.col[i] = right.row[i];
    flipped.filters.row[i] = right.row[kTaps - 1 - i];
    flipped.filters.col[i] = right.col[kTaps - 1 - i];
  }
  for (int i = 0; i < 9; ++i) {
    noX.filters.sobelX[i] = noY.filters.sobelY[i] = 0;
    swapped.filters.sobelX[i] = right.sobelX[i % 3 * 3 + i / 3];
    swapped.filters.sobelY[i] = right.sobelY[i % 3 * 3 + i / 3];
    flipped.filters.sobelX[i] = right.sobelX[8 - i];
    flipped.filters.sobelY[i] = right.sobelY[8 - i];
  }
  return {
      clamped,
      rowOnly,
      colOnly,
      {"the row pass twice, and no column pass", rowOnly.filters, false, true},
      {"the column pass twice, and no row pass", colOnly.filters, false, true},
      identity,
      swapped,
      flipped,
      rowTwice,
      colTwice,
      noX,
      noY};
}

// The image one size larger on each side by `margin`, edge pixels repeated: on
// it the zero-border references compute what a clamped border would give.
inline std::vector<float> extended(const float* h_in, size_t rows, size_t cols,
                                   size_t margin) {
  const size_t wide = cols + 2 * margin;
  std::vector<float> h_out((rows + 2 * margin) * wide);
  for (size_t i = 0; i < h_out.size(); ++i) {
    const size_t y = std::clamp(i / wide, margin, rows + margin - 1) - margin;
    const size_t x = std::clamp(i % wide, margin, cols + margin - 1) - margin;
    h_out[i] = h_in[y * cols + x];
  }
  return h_out;
}

// What the stage would give if it made the suspect's mistake.
inline std::vector<float> blameOn(const Suspect& suspect, const Place& at,
                                  const float* h_in, bool blur) {
  const size_t margin = suspect.clamps ? kRadius : 0;
  const size_t rows = at.rows + 2 * margin, cols = at.cols + 2 * margin;
  const std::vector<float> h_from = extended(h_in, at.rows, at.cols, margin);
  std::vector<float> h_wide(rows * cols), h_out(at.rows * at.cols);
  (blur ? blurReference : sobelReference)(h_from.data(), h_wide.data(), rows,
                                          cols, suspect.filters);
  if (suspect.twice && blur) {
    const std::vector<float> h_once = h_wide;
    blurReference(h_once.data(), h_wide.data(), rows, cols, suspect.filters);
  }
  for (size_t i = 0; i < h_out.size(); ++i) {
    h_out[i] = h_wide[(i / at.cols + margin) * cols + i % at.cols + margin];
  }
  return h_out;
}

// How many pixels of two images agree within the tolerance of a float stage.
inline size_t agreeing(const float* h_got, const float* h_want, size_t pixels) {
  return pixels - compareFloats(h_got, h_want, pixels, kSobelAbs).wrong;
}

// Looks for a known mistake that explains a float image. h_in is what the
// stage read. Only for stages of one filter, and images small enough that ten
// more references take no time that anybody notices.
inline std::string guessFromSuspects(const Stage& stage, const Place& at,
                                     const Filters& filters,
                                     const std::vector<float>& h_got,
                                     const float* h_in, const float* h_want) {
  const size_t pixels = at.rows * at.cols;
  const bool blur = stage.writes == Image::kBlur;
  if (pixels > 2000000 || stage.writes == Image::kInput) return "";
  const auto evidence = [&](const char* words, size_t agree) {
    char text[200];
    snprintf(text, sizeof text, "%s (%zu of %zu pixels equal that)", words,
             agree, pixels);
    return std::string(text);
  };
  const size_t enough = pixels - pixels / 1000;
  std::vector<float> h_turned(pixels);
  for (size_t i = 0; i < pixels; ++i) {
    h_turned[i % at.cols * at.rows + i / at.cols] = h_want[i];
  }
  const size_t turned = agreeing(h_got.data(), h_turned.data(), pixels);
  if (turned >= enough) {
    return evidence("the transpose of the right image: rows and cols exchanged",
                    turned);
  }
  // The right image, moved by -1 to 1 each way; what moves in from outside is
  // NaN and agrees with nothing.
  const size_t wide = at.cols + 2,
               right = agreeing(h_got.data(), h_want, pixels);
  for (size_t move = 0; move < 9; ++move) {
    std::vector<float> h_moved((at.rows + 2) * wide, NAN), h_seen(pixels);
    for (size_t i = 0; i < pixels; ++i) {
      h_moved[(i / at.cols + move / 3) * wide + i % at.cols + move % 3] =
          h_want[i];
    }
    for (size_t i = 0; i < pixels; ++i) {
      h_seen[i] = h_moved[(i / at.cols + 1) * wide + i % at.cols + 1];
    }
    const size_t agree = agreeing(h_got.data(), h_seen.data(), pixels);
    if (agree + at.rows + at.cols >= enough && 2 * agree > pixels + right) {
      return evidence("the right image, but one pixel off", agree);
    }
  }
  for (const Suspect& suspect : suspectsFor(filters)) {
    const std::vector<float> h_blamed = blameOn(suspect, at, h_in, blur);
    // A suspect that explains a wrong pixel differs from the right image there.
    if (agreeing(h_blamed.data(), h_want, pixels) == pixels) continue;
    const size_t agree = agreeing(h_got.data(), h_blamed.data(), pixels);
    // It must also explain most of what is wrong, where that is little.
    if (agree >= enough && 2 * agree > pixels + right) {
      return evidence(suspect.words, agree);
    }
  }
  return "";
}

// What a tile has for rows where no block and thread can be named.
constexpr int kNoOwner = 1 << 30;

// The block and the thread that own a pixel.
struct Owner {
  size_t blockX, blockY, threadX, threadY;
};
inline Owner ownerOf(const Tile& tile, size_t index, size_t cols) {
  if (tile.flat) {
    return {index / tile.cols, 0, index / tile.colsPerThread % kFlatThreads, 0};
  }
  const size_t row = index / cols, col = index % cols;
  const size_t across = col % tile.cols / tile.colsPerThread + tile.firstLane;
  const size_t down = row % tile.rows / tile.rowsPerThread;
  return {col / tile.cols, row / tile.rows, tile.turned ? down : across,
          tile.turned ? across : down};
}

// Prints a failed comparison: counts, the first five wrong pixels with the
// block and thread that own them, the largest error, and the guess.
inline void reportFailure(const Place& at, const Comparison& found,
                          const std::string& guess) {
  const auto percent = [&](size_t count) {
    return 100.0 * count / found.pixels;
  };
  const auto row = [&](size_t index) { return index / at.cols; };
  const auto col = [&](size_t index) { return index % at.cols; };
  fflush(stdout);
  fprintf(stderr, "FAIL %s, case %s, %zu rows x %zu cols\n", at.stage,
          at.caseName.c_str(), at.rows, at.cols);
  if (found.unwritten != 0) {
    fprintf(stderr,
            "  %zu of %zu pixels never written (%.2f%%), the first at row %zu, "
            "col %zu\n",
            found.unwritten, found.pixels, percent(found.unwritten),
            row(found.firstUnwritten), col(found.firstUnwritten));
  }
  if (found.notFinite != 0) {
    fprintf(stderr, "  %zu of %zu pixels not finite (NaN or infinity)\n",
            found.notFinite, found.pixels);
  }
  if (found.tooManyForgiven()) {
    fprintf(stderr,
            "  %zu of %zu edge pixels differ within %g of the threshold: more "
            "than %.1f%%\n",
            found.forgiven, found.pixels, kForgiveBand, 100 * kForgiveShare);
  }
  if (found.wrong != 0) {
    fprintf(stderr, "  %zu of %zu pixels wrong (%.2f%%)\n", found.wrong,
            found.pixels, percent(found.wrong));
  }
  if (found.onlyAgain != 0) {
    fprintf(stderr,
            "  %zu of them only when launched again: does the kernel keep "
            "something from launch to launch?\n",
            found.onlyAgain);
  }
  for (const Mismatch& m : found.first) {
    fprintf(stderr, "  row %zu, col %zu", row(m.index), col(m.index));
    if (at.tile.rows != kNoOwner) {
      const Owner owner = ownerOf(at.tile, m.index, at.cols);
      fprintf(stderr, ", block (%zu, %zu), thread (%zu, %zu)", owner.blockX,
              owner.blockY, owner.threadX, owner.threadY);
    }
    fprintf(stderr, ": got %.9g, want %.9g, allowed difference %.3g\n", m.got,
            m.want, m.allowed);
  }
  if (found.worst > 0.0) {
    fprintf(stderr, "  largest error %.9g at row %zu, col %zu\n", found.worst,
            row(found.worstIndex), col(found.worstIndex));
  }
  if (!guess.empty()) {
    fprintf(stderr, "  a guess, no more: %s\n", guess.c_str());
  }
}

// The guess for a kernel that left pixels out, from which ones they are.
inline std::string guessFromUnwritten(const Place& at,
                                      const Comparison& found) {
  if (found.unwritten == found.pixels) {
    return "nothing was written: was the kernel launched, and does every "
           "thread store its pixel?";
  }
  if (at.tile.flat) return "some threads never store, or the grid is too small";
  const size_t fullRows = at.rows / at.tile.rows * at.tile.rows;
  const size_t fullCols = at.cols / at.tile.cols * at.tile.cols;
  if (found.unwritten == found.pixels - fullRows * fullCols) {
    return "the grid is rounded down: the partial tiles at the right and "
           "bottom have no block";
  }
  const std::string region = guessFromRegion(at, found);
  return region.empty() ? "some threads never store: a guard that is too "
                          "strict, or a grid too small?"
                        : region;
}

// ==================================================================== timing

// One row of the printed table.
struct Row {
  std::string label;
  size_t bytes;   // moved by one run; 0 where no bandwidth is given
  double ms;      // median of kRounds means of kRuns runs
  double spread;  // (max - min) / median of those means; < 0: run once
  double gigabytesPerSecond() const { return bytes / ms / 1e6; }
};

// Something to time, and how to know that it still computes the right thing.
struct Timed {
  std::string label;
  size_t bytes;
  std::function<void()> launch;
  std::function<Exit()> poison;   // before the last round
  std::function<Exit()> recheck;  // after it
};

// A CUDA event, destroyed when it goes out of scope.
class Event {
 public:
  Event() = default;
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  ~Event() {
    if (event_ != nullptr) cudaEventDestroy(event_);
  }
  // Marks this place in the stream.
  Exit record(cudaStream_t stream = nullptr) {
    if (event_ == nullptr) CUDA_TRY(cudaEventCreate(&event_));
    CUDA_TRY(cudaEventRecord(event_, stream));
    return kPass;
  }
  // Waits for the place, and gives the milliseconds since `start`.
  Exit since(const Event& start, double* ms) {
    float elapsed = 0.0f;
    CUDA_TRY(cudaEventSynchronize(event_));
    CUDA_TRY(cudaEventElapsedTime(&elapsed, start.event_, event_));
    *ms = elapsed;
    return kPass;
  }
  cudaEvent_t get() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

// Whether someone watches stderr.
inline bool isWatched() {
#ifdef _WIN32
  static const bool watched = _isatty(_fileno(stderr)) != 0;
#else
  static const bool watched = isatty(fileno(stderr)) != 0;
#endif
  return watched;
}

// Shows what a long step is doing, on one line of a terminal's stderr that the
// next call overwrites; "" wipes it. Prints nothing into a file or a pipe.
inline void progress(const std::string& text) {
  if (!isWatched()) return;
  fprintf(stderr, "\r%-76.76s\r", text.c_str());
  fflush(stderr);
}

// Median and spread of the rounds of one row.
inline Row rowFrom(const Timed& timed, std::vector<double> ms) {
  std::sort(ms.begin(), ms.end());
  const double median = ms[ms.size() / 2];
  return {timed.label, timed.bytes, median, (ms.back() - ms.front()) / median};
}

// Times everything in rounds, so that a drifting clock touches all rows alike.
// A sample is the mean of kRuns launches back to back between two events. The
// warm-ups come right before the first event, with no wait between, so that
// the queue is never empty while it is timed.
inline Exit timeInRounds(const std::vector<Timed>& all,
                         std::vector<Row>* rows) {
  using Clock = std::chrono::steady_clock;
  std::vector<std::vector<double>> samples(all.size());
  Event start, stop;
  for (int round = 0; round < kRounds; ++round) {
    for (size_t i = 0; i < all.size(); ++i) {
      const Timed& timed = all[i];
      progress("timing, round " + std::to_string(round + 1) + " of " +
               std::to_string(kRounds) + ": " + timed.label);
      const bool last = round + 1 == kRounds;
      if (last) TRY(timed.poison());
      // A card that has idled needs a while to reach its clock.
      const auto warm = std::chrono::milliseconds(round + i == 0 ? 300 : 10);
      const auto begin = Clock::now();
      do {
        timed.launch();
        CUDA_TRY(cudaDeviceSynchronize());
      } while (Clock::now() - begin < warm);
      for (int run = 0; run < kWarmUps; ++run) timed.launch();
      TRY(start.record());
      for (int run = 0; run < kRuns; ++run) timed.launch();
      TRY(stop.record());
      CUDA_TRY(cudaGetLastError());
      double ms = 0.0;
      TRY(stop.since(start, &ms));
      samples[i].push_back(ms / kRuns);
      if (last) TRY(timed.recheck());
    }
  }
  progress("");
  for (size_t i = 0; i < all.size(); ++i) {
    rows->push_back(rowFrom(all[i], samples[i]));
  }
  return kPass;
}

inline const Row* findRow(const std::vector<Row>& rows,
                          const std::string& label) {
  for (const Row& row : rows) {
    if (row.label == label) return &row;
  }
  return nullptr;
}

// Prints the table. "x copy" is a row's bandwidth over that of the plain copy,
// "x best" over that of the fastest copy there is a row for.
inline void printTable(const std::vector<Row>& rows) {
  const Row* copy = findRow(rows, kCopyRow);
  double best = 0.0;
  for (const Row& row : rows) {
    if (row.label.rfind("copy", 0) == 0 && row.bytes != 0) {
      best = std::max(best, row.gigabytesPerSecond());
    }
  }
  printf("%-34s %10s %8s %10s %7s %7s %7s\n", "stage", "ms", "GB/s", "bytes",
         "x copy", "spread", "x best");
  for (const Row& row : rows) {
    printf("%-34s %10.4f", row.label.c_str(), row.ms);
    if (row.bytes == 0) {
      printf(" %8s %10s %7s", "n/a", "n/a", "n/a");
    } else {
      const double rate = row.gigabytesPerSecond();
      printf(" %8.1f %10zu %7.3f", rate, row.bytes,
             copy ? rate / copy->gigabytesPerSecond() : NAN);
    }
    if (row.spread < 0.0) {
      printf(" %7s", "n/a");
    } else {
      printf(" %6.2f%%", 100.0 * row.spread);
    }
    if (row.bytes == 0) {
      printf(" %7s\n", "n/a");
    } else {
      printf(" %7.3f\n", row.gigabytesPerSecond() / best);
    }
  }
}

// The clock of a multiprocessor under load, MHz.
inline Exit measureClock(double* megahertz) {
  DeviceBuffer<long long> d_spent;
  TRY(d_spent.allocate(1));
  Event start, stop;
  long long cycles = 0;
  for (const long long wanted : {200000LL, 4000000LL}) {
    TRY(start.record());
    spinCycles<<<1, 1>>>(wanted, d_spent.get());
    TRY(stop.record());
    CUDA_TRY(cudaGetLastError());
  }
  double ms = 0.0;
  TRY(stop.since(start, &ms));
  TRY(d_spent.download(&cycles));
  *megahertz = cycles / ms / 1000.0;
  return kPass;
}

// ===================================================================== cases

struct Size {
  size_t rows, cols;
  size_t pixels() const { return rows * cols; }
};

// A vector that does not fill what it grows by: who reads a picture into 64 MiB
// of it need not write them twice.
template <class T>
struct UnfilledAllocator : std::allocator<T> {
  template <class U>
  struct rebind {
    using other = UnfilledAllocator<U>;
  };
  template <class U>
  void construct(U* place) {
    ::new (static_cast<void*>(place)) U;
  }
};
using Unfilled = std::vector<float, UnfilledAllocator<float>>;

// One image on host and device, its references, and room for what the stages
// write. Every buffer is as large as the image and no larger.
struct Workspace {
  Size size = {0, 0};
  Unfilled h_input;
  std::vector<float> h_blur, h_magnitude, h_floats, h_floatsAgain;
  std::vector<unsigned char> h_edges, h_bytes, h_bytesAgain;
  DeviceBuffer<float> d_input, d_blur, d_magnitude, d_floats, d_scratch;
  DeviceBuffer<unsigned char> d_bytes;

  // The reference of an image that is not the edges.
  const float* reference(Image image) const {
    return image == Image::kInput  ? h_input.data()
           : image == Image::kBlur ? h_blur.data()
                                   : h_magnitude.data();
  }
  const DeviceBuffer<float>& device(Image image) const {
    return image == Image::kInput  ? d_input
           : image == Image::kBlur ? d_blur
                                   : d_magnitude;
  }
};

// Computes the references of h_input: the whole pipeline on one CPU thread.
inline void computeReferences(Workspace& work, const Filters& filters,
                              float threshold) {
  const auto [rows, cols] = work.size;
  const size_t pixels = work.size.pixels();
  work.h_blur.resize(pixels);
  work.h_magnitude.resize(pixels);
  work.h_edges.resize(pixels);
  blurReference(work.h_input.data(), work.h_blur.data(), rows, cols, filters);
  sobelReference(work.h_blur.data(), work.h_magnitude.data(), rows, cols,
                 filters);
  thresholdReference(work.h_magnitude.data(), work.h_edges.data(), pixels,
                     threshold);
}

// Makes the workspace ready for a check of h_input. A stage reads the reference
// of what comes before it, never another stage's output, so that one fault
// shows in one stage.
inline Exit prepare(Workspace& work, const Filters& filters, float threshold) {
  const size_t pixels = work.size.pixels();
  computeReferences(work, filters, threshold);
  for (auto* d_image : {&work.d_input, &work.d_blur, &work.d_magnitude,
                        &work.d_floats, &work.d_scratch}) {
    TRY(d_image->allocate(pixels));
  }
  TRY(work.d_bytes.allocate(pixels));
  TRY(work.d_input.upload(work.h_input.data()));
  TRY(work.d_blur.upload(work.h_blur.data()));
  TRY(work.d_magnitude.upload(work.h_magnitude.data()));
  return kPass;
}

inline Job jobFor(const Stage& stage, const Workspace& work, float threshold) {
  return {work.device(stage.reads).get(),
          work.d_floats.get(),
          work.d_bytes.get(),
          work.d_scratch.get(),
          work.size.rows,
          work.size.cols,
          threshold};
}

// Launches `times` times over outputs full of `poison`, waits, and fetches what
// the stage writes into h_floats or h_bytes.
inline Exit runOver(int poison, int times, const Stage& stage,
                    void (*launch)(const Job&), const Job& job, Workspace& work,
                    std::vector<float>* h_floats,
                    std::vector<unsigned char>* h_bytes) {
  TRY(work.d_scratch.fill(0xFF));
  TRY(work.d_floats.fill(poison));
  TRY(work.d_bytes.fill(poison));
  for (int i = 0; i < times; ++i) launch(job);
  cudaError_t status = cudaGetLastError();
  if (status == cudaSuccess) status = cudaDeviceSynchronize();
  if (status != cudaSuccess) {
    const std::string call = "stage \"" + std::string(stage.label) + "\"";
    return reportCudaError(__FILE__, __LINE__, call.c_str(), status);
  }
  if (stage.writes == Image::kEdges) {
    h_bytes->resize(job.pixels());
    return work.d_bytes.download(h_bytes->data());
  }
  h_floats->resize(job.pixels());
  return work.d_floats.download(h_floats->data());
}

// The most telling guess that there is for a failed comparison.
inline std::string guessCause(const Stage& stage, const Place& at,
                              const Filters& filters, const Workspace& work,
                              const Comparison& found) {
  if (found.unwritten != 0) return guessFromUnwritten(at, found);
  if (found.wrong == 0) return "";
  std::string guess;
  if (found.notFinite == 0 && stage.writes != Image::kEdges) {
    const float* h_want = work.reference(stage.writes);
    guess = guessFromSuspects(stage, at, filters, work.h_floats,
                              work.reference(stage.reads), h_want);
    if (guess.empty()) guess = guessFromRatio(work.h_floats, h_want);
    if (!guess.empty()) return guess;
  }
  guess = guessFromRegion(at, found);
  if (found.notFinite != 0) {
    return "a value that nobody had written was read: shared memory before a "
           "barrier, scratch, or memory out of bounds? " +
           guess;
  }
  return guess.empty() ? "the wrong pixels follow no pattern known here"
                       : guess;
}

// Compares what a stage gave, once or twice, with the reference, and reports.
inline Exit compareOutput(const Stage& stage, const Place& at,
                          const Filters& filters, float threshold, bool twice,
                          const Workspace& work, Comparison* found) {
  const size_t pixels = work.size.pixels();
  if (stage.writes == Image::kEdges) {
    // A stage that reads the magnitude itself has nothing to be forgiven.
    const bool exact = stage.reads == Image::kMagnitude;
    *found =
        compareBytes(work.h_bytes.data(),
                     twice ? work.h_bytesAgain.data() : work.h_bytes.data(),
                     work.h_edges.data(), pixels,
                     exact ? nullptr : work.h_magnitude.data(), threshold);
  } else {
    const double absolute = stage.writes == Image::kInput  ? 0.0
                            : stage.writes == Image::kBlur ? kBlurAbs
                                                           : kSobelAbs;
    *found = compareFloats(work.h_floats.data(), work.reference(stage.writes),
                           pixels, absolute,
                           twice ? work.h_floatsAgain.data() : nullptr);
  }
  if (found->passed()) return kPass;
  reportFailure(at, *found, guessCause(stage, at, filters, work, *found));
  return kFailed;
}

// Checks a stage: one launch over 0xFF, then `again` launches over 0x00, since
// some faults show only then, and since it takes both poisons to tell a written
// 0 from an unwritten one. One launch of a float stage is enough where `again`
// is 1 and no poison is left. Last, the bits of its twin, if it has one.
inline Exit checkStage(const Stage& stage, const Place& at, int again,
                       const Filters& filters, float threshold, Workspace& work,
                       Comparison* found) {
  const Job job = jobFor(stage, work, threshold);
  const bool edges = stage.writes == Image::kEdges;
  TRY(runOver(0xFF, 1, stage, stage.launch, job, work, &work.h_floats,
              &work.h_bytes));
  const bool twice =
      edges || again > 1 ||
      std::any_of(work.h_floats.begin(), work.h_floats.end(),
                  [](float value) { return bitsOf(value) == kPoison; });
  if (twice) {
    TRY(runOver(0x00, again, stage, stage.launch, job, work,
                &work.h_floatsAgain, &work.h_bytesAgain));
  }
  TRY(compareOutput(stage, at, filters, threshold, twice, work, found));
  if (stage.twin == nullptr) return kPass;
  TRY(runOver(0xFF, 1, stage, stage.twin, job, work, &work.h_floatsAgain,
              &work.h_bytesAgain));
  size_t differ = 0, where = 0;
  for (size_t i = work.size.pixels(); i-- > 0;) {
    const bool same =
        edges ? work.h_bytes[i] == work.h_bytesAgain[i]
              : bitsOf(work.h_floats[i]) == bitsOf(work.h_floatsAgain[i]);
    if (same) continue;
    ++differ;
    where = i;
  }
  if (differ == 0) return kPass;
  fflush(stdout);
  fprintf(stderr,
          "FAIL %s, case %s: %zu of %zu pixels are not bit for bit those of "
          "its separate kernels, the first at row %zu, col %zu\n",
          stage.label, at.caseName.c_str(), differ, work.size.pixels(),
          where / at.cols, where % at.cols);
  return kFailed;
}

// Random numbers that are the same with every compiler.
using Random = std::mt19937;
inline float uniform(Random& random) {
  return static_cast<float>(random() >> 8) / 16777216.0f;
}

// Noise, in squares of 8 x 8 pixels that range from dark to bright. Noise of
// one brightness would make all of the border an edge, whatever a kernel does
// there.
inline void fillRandom(Workspace& work, Random& random, double) {
  const auto [rows, cols] = work.size;
  for (size_t row = 0; row < rows; ++row) {
    for (size_t col = 0; col < cols; ++col) {
      const float bright = static_cast<float>((row / 8 + col / 8) % 8 + 1) / 8;
      work.h_input[row * cols + col] = bright * uniform(random);
    }
  }
}
inline void fillImpulse(Workspace& work, Random&, double) {
  const auto [rows, cols] = work.size;
  std::fill(work.h_input.begin(), work.h_input.end(), 0.0f);
  work.h_input[rows / 2 * cols + cols / 2] = 1.0f;
}
inline void fillFlat(Workspace& work, Random&, double) {
  std::fill(work.h_input.begin(), work.h_input.end(), 1.0f);
}
// The generated picture, repeated as often as it takes.
inline void fillPicture(Workspace& work, Random&, double shift) {
  std::vector<unsigned char> h_base(kBaseSize * kBaseSize);
  generatePicture(kBaseSize, kBaseSize, shift, h_base.data());
  const auto [rows, cols] = work.size;
  for (size_t row = 0; row < rows; ++row) {
    for (size_t col = 0; col < cols; ++col) {
      work.h_input[row * cols + col] =
          h_base[row % kBaseSize * kBaseSize + col % kBaseSize] / 255.0f;
    }
  }
}

// Further demands on a blurred image, which hold whatever the reference says.
// Return what is wrong, or "".
inline std::string judgeImpulse(const Workspace& work) {
  const auto [rows, cols] = work.size;
  const std::vector<float>& h_blur = work.h_floats;
  char text[160] = "";
  double sum = 0.0;
  for (float value : h_blur) sum += value;
  const size_t peak = static_cast<size_t>(
      std::max_element(h_blur.begin(), h_blur.end()) - h_blur.begin());
  if (peak != rows / 2 * cols + cols / 2) {
    snprintf(text, sizeof text, "the peak is at row %zu, col %zu, not %zu, %zu",
             peak / cols, peak % cols, rows / 2, cols / 2);
  } else if (!(std::fabs(sum - 1.0) <= 1e-4)) {
    snprintf(text, sizeof text, "the impulse sums to %.6f, not 1", sum);
  }
  for (size_t i = 0; i < kTaps && text[0] == '\0'; ++i) {
    for (size_t j = 0; j < kTaps && text[0] == '\0'; ++j) {
      const size_t row = rows / 2 + kRadius - i, col = cols / 2 + kRadius - j;
      const double want = kLessonFilters.col[i] * kLessonFilters.row[j] / 256.0;
      const double got = h_blur[row * cols + col];
      if (std::fabs(got - want) <= kBlurAbs) continue;
      snprintf(text, sizeof text, "tap (%zu, %zu) is %.6f, not %.6f", i, j, got,
               want);
    }
  }
  return text;
}
inline std::string judgeFlat(const Workspace& work) {
  const auto [rows, cols] = work.size;
  const struct {
    const char* name;
    size_t row, col;
    float want;
  } demands[] = {{"interior", rows / 2, cols / 2, 1.0f},
                 {"column 0", rows / 2, 0, 0.6875f},
                 {"column 1", rows / 2, 1, 0.9375f},
                 {"corner", 0, 0, 0.47265625f}};
  for (const auto& demand : demands) {
    const float got = work.h_floats[demand.row * cols + demand.col];
    if (got == demand.want) continue;
    char text[120];
    snprintf(text, sizeof text, "%s is %.9g, not exactly %.9g", demand.name,
             got, demand.want);
    return text;
  }
  return "";
}

// A case: an image of each size, and what to hold every stage against.
struct Case {
  const char* name;
  std::vector<Size> sizes;
  void (*fill)(Workspace&, Random&, double shift);
  const Filters& filters;
  int again;                               // launches of the second run
  std::string (*judge)(const Workspace&);  // for stages that write a blur
  bool pictures;                           // writes day20_*.pgm
};

// clang-format off
inline const std::vector<Case>& lessonCases() {
  const int again = kWarmUps + kRuns;
  static const std::vector<Case> cases = {
      {"odd", {{kOddRows, kOddCols}},
       fillRandom, kLessonFilters, 1, nullptr, false},
      {"impulse", {{256, 256}},
       fillImpulse, kLessonFilters, again, judgeImpulse, false},
      {"small", {{1, 1}, {1, 5}, {5, 1}, {3, 7}, {7, 3}, {31, 5}, {33, 33},
                 {65, 65}, {640, 17}, {17, 640}},
       fillRandom, kLessonFilters, again, nullptr, false},
      {"skew", {{67, 45}},
       fillRandom, kSkewFilters, again, nullptr, false},
      {"flat", {{65, 65}},
       fillFlat, kLessonFilters, again, judgeFlat, false},
      {"base", {{kBaseSize, kBaseSize}},
       fillPicture, kLessonFilters, 1, nullptr, true},
      {"perf", {{kPerfSize, kPerfSize}},
       fillPicture, kLessonFilters, 1, nullptr, false},
  };
  return cases;
}
// clang-format on

// ====================================================================== main

// What a program built on this file brings: exercises add stages and a report.
struct Program {
  std::string title;
  std::vector<const char*> sources;  // __FILE__ of each
  std::vector<Stage> stages;
  // Called after the table, with its rows (none if nothing was timed). Prints
  // what the exercise asks for, and returns whether it holds.
  std::function<bool(const std::vector<Row>&)> report;
};

struct Options {
  bool help = false, version = false, timing = true, seeded = false;
  unsigned seed = 20;
  float threshold = kThreshold;
  std::vector<std::string> cases;  // empty: all
  std::string image, output;
};

// What the header, the gates and the pre-flight need to know of the card.
struct Card {
  cudaDeviceProp properties = {};
  int driver = 0, runtime = 0;
  int memoryKilohertz = 0, busBits = 0;
  bool timing = false;            // whether its events measure time
  double dramGigabytes() const {  // theoretical, per second; 0: unknown
    return 2.0 * memoryKilohertz * 1e3 * (busBits / 8) / 1e9;
  }
};

// Finds the card and makes sure that this binary can run on it. Any failure is
// reported here, before the first kernel, with what to do.
inline Exit preflight(Card* card) {
  int count = 0;
  CUDA_TRY(cudaGetDeviceCount(&count));
  if (count == 0) {
    return reportCudaError(__FILE__, __LINE__, "cudaGetDeviceCount",
                           cudaErrorNoDevice);
  }
  int device = 0;
  CUDA_TRY(cudaGetDevice(&device));
  CUDA_TRY(cudaGetDeviceProperties(&card->properties, device));
  CUDA_TRY(cudaDriverGetVersion(&card->driver));
  CUDA_TRY(cudaRuntimeGetVersion(&card->runtime));
  CUDA_TRY(cudaDeviceGetAttribute(&card->memoryKilohertz,
                                  cudaDevAttrMemoryClockRate, device));
  CUDA_TRY(cudaDeviceGetAttribute(&card->busBits,
                                  cudaDevAttrGlobalMemoryBusWidth, device));
  cudaFuncAttributes attributes;
  CUDA_TRY(cudaFuncGetAttributes(&attributes, copyPixels));
  TRY(uploadFilters(kLessonFilters));
  // A device without a clock says so here, and is then not timed.
  cudaEvent_t start, stop;
  float ms = 0.0f;
  CUDA_TRY(cudaEventCreate(&start));
  CUDA_TRY(cudaEventCreate(&stop));
  CUDA_TRY(cudaEventRecord(start));
  CUDA_TRY(cudaEventRecord(stop));
  CUDA_TRY(cudaEventSynchronize(stop));
  const cudaError_t status = cudaEventElapsedTime(&ms, start, stop);
  card->timing = status != cudaErrorNotSupported;
  if (card->timing) {
    CUDA_TRY(status);
  } else {
    cudaGetLastError();
  }
  CUDA_TRY(cudaEventDestroy(start));
  CUDA_TRY(cudaEventDestroy(stop));
  return kPass;
}

constexpr uint64_t kFnvStart = 14695981039346656037ull;

// FNV-1a, 64 bits.
inline uint64_t fnv1a(uint64_t hash, const unsigned char* bytes, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    hash = (hash ^ bytes[i]) * 1099511628211ull;
  }
  return hash;
}

// The hash of a source file as 16 hex digits, or "unknown" where it is gone.
// Carriage returns are left out, so that Windows line ends change nothing.
inline std::string hashOfFile(const char* path) {
  FILE* file = fopen(path, "rb");
  if (file == nullptr) return "unknown";
  uint64_t hash = kFnvStart;
  for (int byte; (byte = fgetc(file)) != EOF;) {
    const unsigned char one = static_cast<unsigned char>(byte);
    if (one != '\r') hash = fnv1a(hash, &one, 1);
  }
  fclose(file);
  char text[20];
  snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(hash));
  return text;
}

#define DAY20_QUOTE_RAW(...) #__VA_ARGS__
#define DAY20_QUOTE(...) DAY20_QUOTE_RAW(__VA_ARGS__)

// "750,900" as "sm_75, sm_90".
inline std::string builtFor() {
#ifdef __CUDA_ARCH_LIST__
  std::string text;
  const char* at = DAY20_QUOTE(__CUDA_ARCH_LIST__);
  while (*at != '\0') {
    char* end = nullptr;
    const long arch = strtol(at, &end, 10);
    if (end == at) break;
    text += (text.empty() ? "sm_" : ", sm_") + std::to_string(arch / 10);
    at = *end == ',' ? end + 1 : end;
  }
  return text;
#else
  return "unknown";
#endif
}

// What an instructor needs to trust a transcript: what ran, where, from what.
inline void printHeader(const Program& program, const Options& options,
                        const Card& card) {
#if defined(__clang__)
  const char* compiler = "clang " __clang_version__;
#elif defined(__GNUC__)
  const char* compiler = "gcc " __VERSION__;
#elif defined(_MSC_VER)
  const char* compiler = "msvc " DAY20_QUOTE(_MSC_FULL_VER);
#else
  const char* compiler = "unknown";
#endif
#if defined(__OPTIMIZE__) || (defined(_MSC_VER) && !defined(_DEBUG))
  const char* optimised = "yes";
#else
  const char* optimised = "no, so the CPU times are several times too long";
#endif
  const std::time_t now = std::time(nullptr);
  char date[40] = "";
  std::strftime(date, sizeof date, "%Y-%m-%d %H:%M:%S UTC", std::gmtime(&now));
  const cudaDeviceProp& gpu = card.properties;
  printf("%s %s\n", program.title.c_str(), kVersion);
  printf("date: %s\n", date);
  printf("gpu: %s, compute capability %d.%d, %d SMs, L2 %.1f MiB\n", gpu.name,
         gpu.major, gpu.minor, gpu.multiProcessorCount,
         gpu.l2CacheSize / 1048576.0);
  printf("driver: %d.%d, runtime: %d.%d, nvcc: %d.%d.%d\n", card.driver / 1000,
         card.driver % 1000 / 10, card.runtime / 1000, card.runtime % 1000 / 10,
         __CUDACC_VER_MAJOR__, __CUDACC_VER_MINOR__, __CUDACC_VER_BUILD__);
  printf("built for: %s; host compiler: %s; optimised: %s\n",
         builtFor().c_str(), compiler, optimised);
  for (const char* source : program.sources) {
    printf("source: %s fnv1a64 %s\n",
           std::filesystem::path(source).filename().string().c_str(),
           hashOfFile(source).c_str());
  }
  if (options.seeded) {
    printf("seed: %u\n", options.seed);
  } else {
    printf("seed: none, the lesson's own images\n");
  }
}

// Writes a picture of the base case, reads it back, and holds every pixel of
// the file against the reference. `right` says whether a byte is.
inline Exit writeChecked(const char* path, const std::vector<unsigned char>& h,
                         Size size,
                         const std::function<bool(size_t, int)>& right) {
  std::string note,
      error = writeNetpbm(path, h.data(), size.rows, size.cols, 1);
  Netpbm read;
  if (error.empty()) error = readNetpbm(path, read, note);
  if (!error.empty()) {
    fflush(stdout);
    fprintf(stderr, "%s: %s\n", path, error.c_str());
    return kUsage;
  }
  size_t wrong = read.rows != size.rows || read.cols != size.cols, where = 0;
  for (size_t i = size.pixels(); wrong == 0 && i-- > 0;) {
    if (right(i, read.raster[i])) continue;
    ++wrong;
    where = i;
  }
  if (wrong == 0) return kPass;
  fflush(stdout);
  fprintf(stderr,
          "FAIL %s, read back, is not the picture that was checked: row %zu, "
          "col %zu is %d\n",
          path, where / size.cols, where % size.cols,
          static_cast<int>(read.raster[where]));
  return kFailed;
}

// The three pictures of the base case, each checked as its file holds it.
inline Exit writePictures(const Workspace& work, const Options& options,
                          const std::vector<float>& h_blur,
                          const std::vector<unsigned char>& h_edges) {
  const size_t pixels = work.size.pixels();
  std::vector<unsigned char> h_bytes(pixels);
  std::transform(work.h_input.begin(), work.h_input.end(), h_bytes.begin(),
                 byteOf);
  TRY(writeChecked(
      "day20_input.pgm", h_bytes, work.size,
      [&](size_t i, int byte) { return byte / 255.0f == work.h_input[i]; }));
  if (h_blur.size() != pixels || h_edges.size() != pixels) return kPass;
  std::transform(h_blur.begin(), h_blur.end(), h_bytes.begin(), byteOf);
  TRY(writeChecked("day20_blur.pgm", h_bytes, work.size,
                   [&](size_t i, int byte) {
                     return std::fabs(byte / 255.0f - work.h_blur[i]) <=
                            0.5f / 255.0f + 1e-5f;
                   }));
  size_t white = 0;
  TRY(writeChecked("day20_edges.pgm", h_edges, work.size,
                   [&](size_t i, int byte) {
                     white += byte == 255;
                     return byte == h_edges[i];
                   }));
  const double share = 100.0 * white / pixels;
  printf(
      "picture: day20_input.pgm, day20_blur.pgm, day20_edges.pgm written "
      "and read back; %.2f%% of the edges are white\n",
      share);
  if (options.seeded || std::fabs(share - 2.43) < 0.005) return kPass;
  fflush(stdout);
  fprintf(stderr, "FAIL day20_edges.pgm: 2.43%% must be white\n");
  return kFailed;
}

// Holds the edges from all CPU threads, in h_bytes, against the reference.
inline Exit compareCpu(const Workspace& work, const char* caseName,
                       float threshold) {
  const Comparison found = compareBytes(
      work.h_bytes.data(), work.h_bytes.data(), work.h_edges.data(),
      work.size.pixels(), work.h_magnitude.data(), threshold);
  if (found.passed()) return kPass;
  Tile none;
  none.rows = none.cols = kNoOwner;
  const Place at = {kCpuAllRow,     caseName, work.size.rows,
                    work.size.cols, none,     kRadius + kSobelRadius};
  reportFailure(at, found, guessFromRegion(at, found));
  return kFailed;
}

// Runs the pipeline on all CPU threads, over a poison that is no edge.
inline Exit checkCpu(Workspace& work, const char* caseName, float threshold) {
  work.h_bytes.assign(work.size.pixels(), 0x55);
  cpuPipelineAllThreads(work.h_input.data(), work.h_bytes.data(),
                        work.size.rows, work.size.cols,
                        largestSquare(threshold));
  return compareCpu(work, caseName, threshold);
}

// Checks every stage in one case and prints the case's line. `failed` holds
// one flag a stage: one that failed before is not launched again.
inline Exit runCase(const Case& theCase, const Program& program,
                    const Options& options, Workspace& work,
                    std::vector<bool>* failed, bool* passed) {
  TRY(uploadFilters(theCase.filters));
  size_t pixels = 0, forgiven = 0, fixed = 0, bad = 0;
  double worst = 0.0;
  uint64_t hash = kFnvStart;
  Exit pictures = kPass, cpu = kPass;
  std::vector<float> h_blur;
  std::vector<unsigned char> h_edges;
  Random random(options.seed);
  for (const Size& size : theCase.sizes) {
    work.size = size;
    work.h_input.resize(size.pixels());
    progress(std::string("case ") + theCase.name + ": reference");
    theCase.fill(work, random, options.seeded ? 100.0 * uniform(random) : 0.0);
    TRY(prepare(work, theCase.filters, options.threshold));
    hash = fnv1a(hash, work.h_edges.data(), size.pixels());
    pixels += size.pixels();
    if (&theCase.filters == &kLessonFilters && cpu == kPass) {
      cpu = checkCpu(work, theCase.name, options.threshold);
    }
    for (size_t i = 0; i < program.stages.size(); ++i) {
      const Stage& stage = program.stages[i];
      if (&theCase.filters == &kSkewFilters && stage.taps == Taps::kFixed) {
        ++fixed;
        continue;
      }
      if ((*failed)[i]) continue;
      progress(std::string("case ") + theCase.name + ": " + stage.label);
      const Place at = {stage.label,
                        theCase.name,
                        size.rows,
                        size.cols,
                        tileOf(stage, size.rows, size.cols),
                        reachOf(stage)};
      Comparison found;
      Exit exit = checkStage(stage, at, theCase.again, theCase.filters,
                             options.threshold, work, &found);
      if (exit == kNoGpu) return exit;
      if (exit == kPass && theCase.judge && stage.writes == Image::kBlur) {
        const std::string verdict = theCase.judge(work);
        if (!verdict.empty()) {
          fflush(stdout);
          fprintf(stderr, "FAIL %s, case %s: %s\n", stage.label, theCase.name,
                  verdict.c_str());
          exit = kFailed;
        }
      }
      if (exit != kPass) {
        (*failed)[i] = true;
        continue;
      }
      forgiven += found.forgiven;
      if (stage.writes != Image::kEdges) worst = std::max(worst, found.worst);
      if (stage.writes == Image::kBlur) h_blur = work.h_floats;
      if (stage.writes == Image::kEdges) h_edges = work.h_bytes;
    }
    progress("");
    if (theCase.pictures) {
      pictures = writePictures(work, options, h_blur, h_edges);
      if (pictures == kUsage) return pictures;
    }
  }
  bad = static_cast<size_t>(std::count(failed->begin(), failed->end(), true));
  char sizes[80];
  const Size& first = theCase.sizes[0];
  if (theCase.sizes.size() == 1) {
    snprintf(sizes, sizeof sizes, "%zu rows x %zu cols, grid (%d, %d)",
             first.rows, first.cols, tilesOver(first.cols),
             tilesOver(first.rows));
  } else {
    snprintf(sizes, sizeof sizes, "%zu sizes", theCase.sizes.size());
  }
  const size_t stages = program.stages.size() - fixed;
  *passed = bad == 0 && pictures == kPass && cpu == kPass;
  printf(
      "case %s: %s, %zu pixels, %zu of %zu stages pass, %zu left out, %zu "
      "forgiven, worst error %.1e, reference %016llx: %s\n",
      theCase.name, sizes, pixels, stages - std::min(bad, stages), stages,
      fixed, forgiven, worst, static_cast<unsigned long long>(hash),
      *passed ? "pass" : "FAIL");
  fflush(stdout);
  return kPass;
}

// Times every stage on the image that the perf case left on the device, and
// the CPU reference on the same clock.
inline Exit timeStages(const Program& program, const Options& options,
                       Workspace& work, std::vector<Row>* rows) {
  const size_t pixels = work.size.pixels();
  std::vector<Timed> all;
  for (const Stage& stage : program.stages) {
    const Job job = jobFor(stage, work, options.threshold);
    // An edge is 0 or 255, so a byte that keeps 0x55 was not written.
    const auto poison = [&work] {
      TRY(work.d_floats.fill(0xFF));
      TRY(work.d_scratch.fill(0xFF));
      return work.d_bytes.fill(0x55);
    };
    const auto recheck = [&work, &stage, &options] {
      if (stage.writes == Image::kEdges) {
        TRY(work.d_bytes.download(work.h_bytes.data()));
      } else {
        TRY(work.d_floats.download(work.h_floats.data()));
      }
      const Place at = {stage.label,
                        "perf, after the timed loop",
                        work.size.rows,
                        work.size.cols,
                        tileOf(stage, work.size.rows, work.size.cols),
                        reachOf(stage)};
      Comparison found;
      return compareOutput(stage, at, kLessonFilters, options.threshold, false,
                           work, &found);
    };
    all.push_back({stage.label, stage.bytesPerPixel * pixels,
                   [&stage, job] { stage.launch(job); }, poison, recheck});
  }
  TRY(timeInRounds(all, rows));
  progress("timing the CPU");
  Event start, stop;
  double ms = 0.0;
  std::vector<double> samples;
  work.h_bytes.assign(pixels, 0x55);
  for (int round = 0; round < kRounds; ++round) {
    TRY(start.record());
    cpuPipelineAllThreads(work.h_input.data(), work.h_bytes.data(),
                          work.size.rows, work.size.cols,
                          largestSquare(options.threshold));
    TRY(stop.record());
    TRY(stop.since(start, &ms));
    samples.push_back(ms);
  }
  TRY(compareCpu(work, "perf, after the timed loop", options.threshold));
  rows->push_back(rowFrom({kCpuAllRow, 0, {}, {}, {}}, samples));
  TRY(start.record());
  computeReferences(work, kLessonFilters, options.threshold);
  TRY(stop.record());
  TRY(stop.since(start, &ms));
  progress("");
  rows->push_back({kCpuRow, 0, ms, -1.0});
  return kPass;
}

// The lines under the table, recomputed from its rows.
inline void printRatios(const std::vector<Row>& rows) {
  const Row* copy = findRow(rows, kCopyRow);
  const Row* plain = findRow(rows, kPitch36Row);
  const Row* padded = findRow(rows, kPitch37Row);
  const Row* pipeline = findRow(rows, kPipelineRow);
  const Row* cpu = findRow(rows, kCpuRow);
  const Row* oneKernel = findRow(rows, kOneKernelRow);
  const Row* allThreads = findRow(rows, kCpuAllRow);
  if (!copy || !plain || !padded || !pipeline || !cpu || !oneKernel ||
      !allThreads) {
    return;
  }
  printf(
      "CPU / GPU: %.4f / %.4f ms = %.1f (one thread, plain loops in double: "
      "a weak denominator)\n",
      cpu->ms, pipeline->ms, cpu->ms / pipeline->ms);
  printf("pipeline: %.1f%% of the plain copy's bandwidth\n",
         100.0 * pipeline->gigabytesPerSecond() / copy->gigabytesPerSecond());
  printf("padding: pitch 37 changed the tiled blur's time by %+.2f%%\n",
         100.0 * (padded->ms / plain->ms - 1.0));
  printf("one kernel: %.4f / %.4f ms = %.1f times the lesson's pipeline\n",
         pipeline->ms, oneKernel->ms, pipeline->ms / oneKernel->ms);
  printf(
      "good CPU / good GPU: %.4f / %.4f ms = %.1f (%u threads against one "
      "kernel: the honest ratio)\n",
      allThreads->ms, oneKernel->ms, allThreads->ms / oneKernel->ms,
      std::max(1u, std::thread::hardware_concurrency()));
}

// Holds the table against what a card can do. Prints a line a gate.
inline bool judgeTable(const std::vector<Row>& rows, const Program& program,
                       const Card& card, size_t pixels) {
  bool passed = true;
  for (const Stage& stage : program.stages) {
    if (stage.parts.empty()) continue;
    const double ms = findRow(rows, stage.label)->ms;
    double sum = 0.0, longest = 0.0;
    for (const char* label : stage.parts) {
      const double part = findRow(rows, label)->ms;
      sum += part;
      longest = std::max(longest, part);
    }
    const bool holds = ms >= longest;
    printf(
        "gate: %s takes %.3f of the sum of its parts, and may not be "
        "faster than one alone: %s\n",
        stage.label, ms / sum, holds ? "pass" : "FAIL");
    passed = passed && holds;
  }
  const double limit = card.dramGigabytes();
  if (limit > 0.0) {
    bool holds = true;
    for (const Row& row : rows) {
      if (row.bytes == 0) continue;
      const double rate = row.gigabytesPerSecond();
      if (!(rate <= 3.0 * limit)) {
        printf("gate: %s at %.1f GB/s is impossible on this card\n",
               row.label.c_str(), rate);
        holds = false;
      } else if (rate > limit) {
        printf(
            "note: %s at %.1f GB/s is above the memory's %.1f: the cache "
            "helped\n",
            row.label.c_str(), rate, limit);
      }
    }
    printf(
        "gate: no row above 3 times the memory's theoretical %.1f GB/s: "
        "%s\n",
        limit, holds ? "pass" : "FAIL");
    passed = passed && holds;
  }
  // The smallest set that a row keeps touching: a float in, a byte out.
  const double set = 5.0 * pixels / 1048576.0;
  const double l2 = card.properties.l2CacheSize / 1048576.0;
  printf("working set: %.1f MiB or more a row, L2 %.1f MiB: %s\n", set, l2,
         set > l2 ? "does not fit"
                  : "FITS, so GB/s may be the cache's and not the memory's");
  return passed;
}

// Every case asked for, then the table.
inline Exit runLesson(const Program& program, const Options& options) {
  Card card;
  TRY(preflight(&card));
  printHeader(program, options, card);
  Workspace work;
  std::vector<bool> failed(program.stages.size(), false);
  bool passed = true, perf = false;
  for (const Case& theCase : lessonCases()) {
    if (!options.cases.empty() &&
        std::find(options.cases.begin(), options.cases.end(), theCase.name) ==
            options.cases.end()) {
      continue;
    }
    bool held = false;
    TRY(runCase(theCase, program, options, work, &failed, &held));
    passed = passed && held;
    perf = std::string(theCase.name) == "perf";
  }
  std::vector<Row> rows;
  if (!perf || !options.timing) {
    printf("timing: not asked for\n");
  } else if (!card.timing) {
    printf("timing: none, this device has no clock\n");
  } else if (!passed) {
    printf("timing: none, since a check failed\n");
  } else {
    double before = 0.0, after = 0.0;
    TRY(measureClock(&before));
    const Exit exit = timeStages(program, options, work, &rows);
    if (exit == kNoGpu) return exit;
    passed = exit == kPass;
    TRY(measureClock(&after));
    if (passed) {
      printTable(rows);
      printRatios(rows);
      printf("SM clock: %.0f MHz before the table, %.0f after\n", before,
             after);
      passed = judgeTable(rows, program, card, work.size.pixels());
    }
  }
  if (program.report && !program.report(rows)) passed = false;
  printf("result: %s\n", passed ? "pass" : "fail");
  return passed ? kPass : kFailed;
}

// Milliseconds since `start` on the host's clock.
inline double hostMs(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(
             std::chrono::steady_clock::now() - start)
      .count();
}

// How long the parts of a picture's way take, milliseconds. The device's are
// negative where it has no clock.
struct PictureTimes {
  double read, convert, check, write;
  double copyIn = -1.0, kernel = -1.0, copyOut = -1.0;
};

// Copies h_input to the device, runs the stage on it, and copies the edges
// back, twice, over both poisons. The second time is timed: the first warms up.
// The copies are from and to pageable memory, since locking the pages of one
// picture takes longer than it saves.
inline Exit edgesOnDevice(const Stage& stage, const Card& card, float threshold,
                          Workspace& work, PictureTimes* times) {
  const size_t pixels = work.size.pixels();
  TRY(work.d_input.allocate(pixels));
  TRY(work.d_bytes.allocate(pixels));
  const Job job = {
      work.d_input.get(), nullptr,        work.d_bytes.get(), nullptr,
      work.size.rows,     work.size.cols, threshold};
  Event begin, in, done, out;
  for (const int poison : {0x00, 0xFF}) {
    std::vector<unsigned char>& h_edges =
        poison == 0x00 ? work.h_bytesAgain : work.h_bytes;
    h_edges.resize(pixels);
    TRY(work.d_bytes.fill(poison));
    TRY(begin.record());
    TRY(work.d_input.upload(work.h_input.data()));
    TRY(in.record());
    stage.launch(job);
    CUDA_TRY(cudaGetLastError());
    TRY(done.record());
    TRY(work.d_bytes.download(h_edges.data()));
    TRY(out.record());
  }
  CUDA_TRY(cudaDeviceSynchronize());
  if (!card.timing) return kPass;
  TRY(in.since(begin, &times->copyIn));
  TRY(done.since(in, &times->kernel));
  return out.since(done, &times->copyOut);
}

// The edges of the user's own picture, by the fastest pipeline, checked and
// written.
inline Exit runPicture(const Program& program, const Options& options) {
  const char* image = options.image.c_str();
  const auto refuse = [](const std::string& path, const std::string& error) {
    fflush(stdout);
    fprintf(stderr, "%s: %s\n", path.c_str(), error.c_str());
    return kUsage;
  };
  PictureTimes times = {};
  Netpbm file;
  std::string note;
  auto start = std::chrono::steady_clock::now();
  std::string error = readNetpbm(options.image, file, note);
  if (!error.empty()) return refuse(options.image, error);
  times.read = hostMs(start);
  if (file.rows > INT_MAX || file.cols > INT_MAX) {
    return refuse(options.image, "more than 2147483647 rows or columns");
  }
  Workspace work;
  work.size = {file.rows, file.cols};
  const size_t pixels = work.size.pixels();
  start = std::chrono::steady_clock::now();
  work.h_input.resize(pixels);
  greyFromNetpbm(file, work.h_input.data());
  std::vector<unsigned char>().swap(file.raster);
  times.convert = hostMs(start);

  Card card;
  TRY(preflight(&card));
  printHeader(program, options, card);
  if (!note.empty()) printf("%s: %s\n", image, note.c_str());
  const size_t needed = pixels * (sizeof(float) + 1);
  size_t free = 0, total = 0;
  CUDA_TRY(cudaMemGetInfo(&free, &total));
  if (needed > free) {
    char text[120];
    snprintf(text, sizeof text,
             "needs %.1f MiB of device memory, free are %.1f of %.1f MiB",
             needed / 1048576.0, free / 1048576.0, total / 1048576.0);
    return refuse(options.image, text);
  }
  const auto stage = std::find_if(
      program.stages.begin(), program.stages.end(),
      [](const Stage& s) { return std::string(s.label) == kOneKernelRow; });
  TRY(edgesOnDevice(*stage, card, options.threshold, work, &times));

  progress("checking against the CPU reference");
  start = std::chrono::steady_clock::now();
  computeReferences(work, kLessonFilters, options.threshold);
  const Place at = {stage->label,
                    options.image,
                    file.rows,
                    file.cols,
                    tileOf(*stage, file.rows, file.cols),
                    reachOf(*stage)};
  Comparison found;
  const Exit exit = compareOutput(*stage, at, kLessonFilters, options.threshold,
                                  true, work, &found);
  times.check = hostMs(start);
  progress("");
  if (exit != kPass) {
    printf("result: fail\n");
    return exit;
  }
  start = std::chrono::steady_clock::now();
  error =
      writeNetpbm(options.output, work.h_bytes.data(), file.rows, file.cols, 1);
  if (!error.empty()) return refuse(options.output, error);
  times.write = hostMs(start);

  const size_t white = static_cast<size_t>(
      std::count(work.h_bytes.begin(), work.h_bytes.end(), 255));
  printf("%s: %zu rows x %zu cols, equal to the CPU reference (%zu forgiven)\n",
         image, file.rows, file.cols, found.forgiven);
  printf("%s: %.2f%% of the edges are white\n", options.output.c_str(),
         100.0 * white / pixels);
  printf("host: read %.1f ms, convert %.1f, check %.1f, write %.1f\n",
         times.read, times.convert, times.check, times.write);
  if (card.timing) {
    printf("device: copy in %.3f ms, kernel %.3f, copy out %.3f\n",
           times.copyIn, times.kernel, times.copyOut);
  }
  printf("result: pass\n");
  return kPass;
}

inline void printUsage(FILE* stream, const char* program) {
  fprintf(stream,
          "usage: %s [--cases LIST] [--no-timing] [--seed N]\n"
          "       %s [--threshold T] [-o EDGES.pgm] IMAGE\n"
          "\n"
          "Without an IMAGE: checks every kernel in every case, then times "
          "them.\n"
          "  --cases LIST   only these, with commas between:",
          program, program);
  for (const Case& theCase : lessonCases()) {
    fprintf(stream, " %s", theCase.name);
  }
  fprintf(stream,
          "\n"
          "                 (the table needs perf)\n"
          "  --no-timing    no table\n"
          "  --seed N       other images, so that no transcript can be "
          "prepared\n"
          "With an IMAGE (PGM or PPM): writes its edges.\n"
          "  --threshold T  of the gradient's magnitude, 0.30 unless given\n"
          "  -o EDGES.pgm   the name of the output; IMAGE_edges.pgm unless "
          "given\n"
          "  --help, --version\n"
          "exit code: 0 passed, 1 a check failed, 2 usage or bad input, "
          "3 no usable GPU or a CUDA error\n");
}

// "dir/photo.ppm" as "dir/photo_edges.pgm"; what is no file, such as a pipe,
// leaves its edges where the program runs.
inline std::string edgesName(const std::string& image) {
  std::error_code ignored;
  const std::filesystem::path path(image);
  const std::string name = path.stem().string() + "_edges.pgm";
  if (!std::filesystem::is_regular_file(path, ignored)) return name;
  return (path.parent_path() / name).string();
}

// Fills in the options. Returns what is wrong with the command line, or "".
inline std::string parseOptions(int argc, char** argv, Options* options) {
  bool pictureOnly = false, lessonOnly = false;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const bool takesValue = word == "--threshold" || word == "-o" ||
                            word == "--cases" || word == "--seed";
    if (takesValue && i + 1 == argc) return word + " needs a value";
    const std::string value = takesValue ? argv[++i] : "";
    char* end = nullptr;
    if (word == "--help" || word == "-h") {
      options->help = true;
    } else if (word == "--version") {
      options->version = true;
    } else if (word == "--no-timing") {
      options->timing = false;
    } else if (word == "--threshold") {
      options->threshold = strtof(value.c_str(), &end);
      if (value.empty() || *end != '\0' || !isFinite(options->threshold) ||
          options->threshold < 0.0f) {
        return "--threshold " + value + ": not a number of 0 or more";
      }
      pictureOnly = true;
    } else if (word == "-o") {
      options->output = value;
      pictureOnly = true;
    } else if (word == "--seed") {
      const unsigned long long seed = strtoull(value.c_str(), &end, 10);
      if (value.empty() || value[0] < '0' || value[0] > '9' || *end != '\0' ||
          seed > UINT_MAX) {
        return "--seed " + value + ": not a whole number of 0 to 4294967295";
      }
      options->seed = static_cast<unsigned>(seed);
      options->seeded = lessonOnly = true;
    } else if (word == "--cases") {
      lessonOnly = true;
      for (size_t at = 0; at <= value.size();) {
        const size_t comma = std::min(value.find(',', at), value.size());
        const std::string name = value.substr(at, comma - at);
        at = comma + 1;
        bool known = false;
        for (const Case& theCase : lessonCases()) known |= name == theCase.name;
        if (!known) return "--cases: there is no case \"" + name + "\"";
        options->cases.push_back(name);
      }
    } else if (word.size() > 1 && word[0] == '-') {
      return "unknown option " + word;
    } else if (!options->image.empty()) {
      return "more than one IMAGE: " + options->image + " and " + word;
    } else {
      options->image = word;
    }
  }
  if (options->image.empty() && pictureOnly) {
    return "--threshold and -o need an IMAGE";
  }
  if (!options->image.empty() && lessonOnly) {
    return "--cases and --seed do not go with an IMAGE";
  }
  if (options->output.empty()) options->output = edgesName(options->image);
  return "";
}

// Answers a command line that asks for no run: one with an error, --help or
// --version. The exit code, or nothing where the program is to run.
inline std::optional<Exit> answered(const char* program,
                                    const std::string& error, bool help,
                                    bool version, const std::string& title,
                                    void (*usage)(FILE*, const char*)) {
  if (!error.empty()) {
    fprintf(stderr, "%s: %s\n", program, error.c_str());
    usage(stderr, program);
    return kUsage;
  }
  if (help) {
    usage(stdout, program);
    return kPass;
  }
  if (version) {
    printf("%s %s\n", title.c_str(), kVersion);
    return kPass;
  }
  return std::nullopt;
}

// What the lesson and every exercise built on it run.
inline int lessonMain(int argc, char** argv, const Program& program) {
  Options options;
  const std::string error = parseOptions(argc, argv, &options);
  if (const auto exit = answered(argv[0], error, options.help, options.version,
                                 program.title, printUsage)) {
    return *exit;
  }
  return options.image.empty() ? runLesson(program, options)
                               : runPicture(program, options);
}

// An exercise defines DAY20_EXERCISE, includes this file, adds to its stages
// and has a main of its own.
constexpr const char* kLessonSource = __FILE__;
#ifndef DAY20_EXERCISE
int main(int argc, char** argv) {
  return lessonMain(
      argc, argv,
      {"day20 image convolution", {kLessonSource}, lessonStages(), nullptr});
}
#endif
