// Frames of video: colour in, edges and a histogram out, many a second. The
// copies of one frame travel while the kernels work on another.
//
// Build:  nvcc -std=c++17 -O3 -arch=sm_75 -o frames exercises/frames.cu
// Run:    ./frames                        every check, then the report card
//         ./frames --in DIR --out DIR     the edges of your own PPM files
// No GPU: sh exercises/no-gpu/nvcc -std=c++17 -O3 -arch=sm_75
//             -o frames exercises/frames.cu && ./frames --size 120x160
//
// frames_harness.h says what each stage computes, to the last digit. You write
// two parts, in either order; each has its own check:
//   frameBlurRows, frameBlurCols   a blur whose border repeats the edge pixel
//   streamFrames                   the loop that keeps two streams busy
// SPDX-License-Identifier: MIT

#include "../exercises/frames_harness.h"

// lines count from here: the frame, one kernel a stage
//
// All take rows x cols pixels, row-major and tightly packed. All but the
// histogram are launched with 32 x 8 threads, one a pixel.

// grey = 0.299 R + 0.587 G + 0.114 B, rounded to nearest, in whole numbers.
// A thread owns one pixel: 3 bytes in, 1 byte out. The lanes of a warp step by
// 3 bytes, so a warp's three loads share their 96 bytes, and its 3 sectors.
__global__ void frameGrey(const unsigned char* d_rgb, unsigned char* d_grey,
                          int rows, int cols) {
  const int col = blockIdx.x * blockDim.x + threadIdx.x;
  const int row = blockIdx.y * blockDim.y + threadIdx.y;
  if (row >= rows || col >= cols) return;
  const size_t at = static_cast<size_t>(row) * cols + col;
  const unsigned char* d_at = d_rgb + 3 * at;
  d_grey[at] = static_cast<unsigned char>(
      (299 * d_at[0] + 587 * d_at[1] + 114 * d_at[2] + 500) / 1000);
}

// rows(r, c) = sum over j of w(j) grey(r, nearest(c + j)), j = -2 to 2.
// A thread owns one pixel: 1 byte in, 4 bytes out, 5 taps from the caches.
// Add up from j = -2 to 2, from 0, with sum = __fmaf_rn(weight, tap, sum): the
// fused kernel does the same, and its edges must be yours bit for bit.
__global__ void frameBlurRows(const unsigned char* d_grey, float* d_rows,
                              int rows, int cols) {
  // TODO(you): about 10 lines
  (void)d_grey, (void)d_rows, (void)rows, (void)cols;  // yours to use
  // end TODO
}

// blur(r, c) = sum over i of w(i) rows(nearest(r + i), c), i = -2 to 2, added
// up in that order. 4 bytes in, 4 bytes out.
__global__ void frameBlurCols(const float* d_rows, float* d_blur, int rows,
                              int cols) {
  // TODO(you): about 10 lines
  (void)d_rows, (void)d_blur, (void)rows, (void)cols;
  // end TODO
}

// The two sums that a row adds to the gradients of its middle pixel: right -
// left, and left + 2 middle + right. Spelled, so that no compiler contracts it
// in one kernel and not in another.
__device__ inline void rowSums(float left, float middle, float right,
                               float* difference, float* smooth) {
  *difference = __fsub_rn(right, left);
  *smooth = __fadd_rn(__fmaf_rn(2.0f, middle, left), right);
}
// The root by the hardware's own instruction: off by one unit in the last place
// at most, and 10 instructions shorter than sqrtf.
__device__ inline float fastRoot(float square) {
#ifdef __CUDA_ARCH__
  float root;
  asm("sqrt.approx.ftz.f32 %0, %1;" : "=f"(root) : "f"(square));
  return root;
#else
  return std::sqrt(square);
#endif
}
__device__ inline float magnitudeOf(float gx, float gy) {
  return fastRoot(__fmaf_rn(gy, gy, __fmul_rn(gx, gx)));
}

// magnitude = root of gx^2 + gy^2, Sobel 3 x 3, every tap clamped on its own.
// 4 bytes in, 4 bytes out, 9 taps from the caches.
__global__ void frameSobel(const float* d_blur, float* d_magnitude, int rows,
                           int cols) {
  const int col = blockIdx.x * blockDim.x + threadIdx.x;
  const int row = blockIdx.y * blockDim.y + threadIdx.y;
  if (row >= rows || col >= cols) return;
  float difference[3], smooth[3];
  for (int i = 0; i < 3; ++i) {
    const float* d_line =
        d_blur + static_cast<size_t>(nearest(row + i - 1, rows)) * cols;
    rowSums(d_line[nearest(col - 1, cols)], d_line[col],
            d_line[nearest(col + 1, cols)], &difference[i], &smooth[i]);
  }
  const float gx =
      __fadd_rn(__fmaf_rn(2.0f, difference[1], difference[0]), difference[2]);
  const float gy = __fsub_rn(smooth[2], smooth[0]);
  d_magnitude[static_cast<size_t>(row) * cols + col] = magnitudeOf(gx, gy);
}

// edges = magnitude rounded to nearest, 255 at most. 4 bytes in, 1 byte out.
__global__ void frameBytes(const float* d_magnitude, unsigned char* d_edges,
                           int rows, int cols) {
  const int col = blockIdx.x * blockDim.x + threadIdx.x;
  const int row = blockIdx.y * blockDim.y + threadIdx.y;
  if (row >= rows || col >= cols) return;
  const size_t at = static_cast<size_t>(row) * cols + col;
  d_edges[at] = static_cast<unsigned char>(
      __float2uint_rn(fminf(d_magnitude[at], 255.0f)));
}

constexpr int kBinThreads = 256;
constexpr int kCopies = 8;              // of the histogram, in a block
constexpr size_t kBinPixels = 1 << 14;  // that a block counts, or more

// bins(v) += the number of edges that are v.
// Adding to 256 counters in global memory would send every pixel to the same
// few addresses. So each block counts in shared memory first, and eight times
// over: lanes that meet one value then hit different words, in other banks. A
// word of four equal bytes, which is most of an edge image, is one addition.
// Launch: 256 threads, any number of blocks. A thread takes 16 pixels at once,
// which must start where cudaMalloc would put them.
__global__ void frameHistogram(const unsigned char* d_edges, size_t pixels,
                               unsigned* d_bins) {
  __shared__ unsigned s_bins[kBins * kCopies];
  for (unsigned i = threadIdx.x; i < kBins * kCopies; i += kBinThreads) {
    s_bins[i] = 0;
  }
  __syncthreads();
  unsigned* const s_mine = s_bins + threadIdx.x % kCopies;
  const auto count = [&](unsigned word) {
    const unsigned value = word & 255;
    if (word == value * 0x01010101u) {
      atomicAdd(&s_mine[value * kCopies], 4u);
      return;
    }
    for (int byte = 0; byte < 4; ++byte) {
      atomicAdd(&s_mine[(word >> 8 * byte & 255) * kCopies], 1u);
    }
  };
  const size_t first = blockIdx.x * size_t{kBinThreads} + threadIdx.x;
  const size_t step = size_t{gridDim.x} * kBinThreads;
  for (size_t i = first; i < pixels / 16; i += step) {
    const uint4 words = reinterpret_cast<const uint4*>(d_edges)[i];
    count(words.x);
    count(words.y);
    count(words.z);
    count(words.w);
  }
  for (size_t i = pixels / 16 * 16 + first; i < pixels; i += step) {
    atomicAdd(&s_mine[d_edges[i] * kCopies], 1u);
  }
  __syncthreads();
  for (unsigned bin = threadIdx.x; bin < kBins; bin += kBinThreads) {
    unsigned sum = 0;
    for (int copy = 0; copy < kCopies; ++copy) {
      sum += s_bins[bin * kCopies + copy];
    }
    if (sum != 0) atomicAdd(&d_bins[bin], sum);
  }
}

const dim3 kFrameBlock(32, 8);
inline dim3 frameGrid(const FrameJob& job) {
  return dim3((job.cols + 31) / 32, (job.rows + 7) / 8);
}
inline cudaError_t launchGrey(const FrameJob& job) {
  frameGrey<<<frameGrid(job), kFrameBlock, 0, job.stream>>>(
      job.d_rgb, job.d_grey, job.rows, job.cols);
  return cudaGetLastError();
}
inline cudaError_t launchBlurRows(const FrameJob& job) {
  frameBlurRows<<<frameGrid(job), kFrameBlock, 0, job.stream>>>(
      job.d_grey, job.d_rows, job.rows, job.cols);
  return cudaGetLastError();
}
inline cudaError_t launchBlurCols(const FrameJob& job) {
  frameBlurCols<<<frameGrid(job), kFrameBlock, 0, job.stream>>>(
      job.d_rows, job.d_blur, job.rows, job.cols);
  return cudaGetLastError();
}
inline cudaError_t launchSobel(const FrameJob& job) {
  frameSobel<<<frameGrid(job), kFrameBlock, 0, job.stream>>>(
      job.d_blur, job.d_magnitude, job.rows, job.cols);
  return cudaGetLastError();
}
inline cudaError_t launchBytes(const FrameJob& job) {
  frameBytes<<<frameGrid(job), kFrameBlock, 0, job.stream>>>(
      job.d_magnitude, job.d_edges, job.rows, job.cols);
  return cudaGetLastError();
}
inline cudaError_t launchHistogram(const FrameJob& job) {
  const cudaError_t status =
      cudaMemsetAsync(job.d_bins, 0, kBins * sizeof(unsigned), job.stream);
  if (status != cudaSuccess) return status;
  const size_t blocks = divideUp(job.pixels(), kBinPixels);
  frameHistogram<<<static_cast<unsigned>(std::min<size_t>(blocks, 1024)),
                   kBinThreads, 0, job.stream>>>(job.d_edges, job.pixels(),
                                                 job.d_bins);
  return cudaGetLastError();
}
inline cudaError_t launchSeparate(const FrameJob& job) {
  return launchAll(job, {launchGrey, launchBlurRows, launchBlurCols,
                         launchSobel, launchBytes, launchHistogram});
}
// end of count

// ---- the same in one kernel -------------------------------------------------
//
// Colour to edges without a byte of scratch: 3 bytes in, 1 byte out. It marches
// as pipelineOneKernel of convolution.cu does: a warp goes down a strip of the
// image, a row at a time; a lane owns kN columns of it. No shared memory, no
// barrier: neighbours come by shuffles, and what the filters need of the rows
// above stays in registers, as partial sums. The outer lanes are halo, and so
// are three rows above the strip and three below: 120 x 32 edges cost 128 x 38
// reads.

constexpr int kTogether = 4;  // rows that are read together, ahead of their use

// Bytes kFirst and kFirst + 1 of a word times the low and the high half of
// `weights`, and sum: one instruction.
template <int kFirst>
__device__ inline unsigned weighTwo(unsigned weights, unsigned word,
                                    unsigned sum) {
#ifdef __CUDA_ARCH__
  return kFirst == 0 ? __dp2a_lo(weights, word, sum)
                     : __dp2a_hi(weights, word, sum);
#else
  word >>= 8 * kFirst;
  return (weights & 65535) * (word & 255) +
         (weights >> 16) * (word >> 8 & 255) + sum;
#endif
}

// kSums is the bits of the float 8389000. Adding N = 299 R + 587 G + 114 B to
// them gives those of 8389000 + N: no conversion is needed. A thousandth of
// that, 8389.0004 + N / 1000 since 0.001f is a little more, is moved up to
// 2^23, where floats are whole numbers, and so rounded, halves up. Exact for
// each of the 255001 sums.
constexpr unsigned kSums = 0x4B000000u + 392u;
__device__ inline float greyOf(unsigned sum) {
  const float shifted =
      __fmaf_rn(__uint_as_float(sum), 0.001f, 8388608.0f - 8389.0f);
  return __fadd_rn(shifted, -8388608.0f);
}

// The colours of kN pixels: 3 words (kN 4) or 3 bytes (kN 1).
template <int kN>
struct Colours {
  unsigned part[3];
};
template <int kN>
__device__ inline Colours<kN> loadColours(const unsigned char* d_at) {
  if constexpr (kN == 4) {
    const unsigned* d_words = reinterpret_cast<const unsigned*>(d_at);
    return {{__ldg(d_words), __ldg(d_words + 1), __ldg(d_words + 2)}};
  } else {
    return {{__ldg(d_at), __ldg(d_at + 1), __ldg(d_at + 2)}};
  }
}
template <int kN>
__device__ inline Pixels<kN> greysOf(const Colours<kN>& colours) {
  const unsigned *p = colours.part, *q = p + 1, *r = p + 2;
  if constexpr (kN == 4) {  // RGBR GBRG BRGB
    constexpr unsigned kRG = 299u | 587u << 16, kGB = 587u | 114u << 16;
    constexpr unsigned kB = 114u, kR = 299u << 16;
    return {{greyOf(weighTwo<2>(kB, *p, weighTwo<0>(kRG, *p, kSums))),
             greyOf(weighTwo<0>(kGB, *q, weighTwo<2>(kR, *p, kSums))),
             greyOf(weighTwo<0>(kB, *r, weighTwo<2>(kRG, *q, kSums))),
             greyOf(weighTwo<2>(kGB, *r, weighTwo<0>(kR, *r, kSums)))}};
  } else {
    return {{greyOf(kSums + 299 * *p + 587 * *q + 114 * *r)}};
  }
}

// One warp on its way down. kN 4 where 4 divides the width, so that a lane's
// colours are 3 aligned words and its edges one; kN 1 elsewhere: the same
// arithmetic, the same bits. kEdge: the warp may reach beyond the left or right
// border.
template <int kN, bool kEdge>
struct March {
  int col, cols;         // of the lane's first pixel; of the image
  Pixels<kN> column[4];  // the blurs of rows to come, with 4, 3, 2, 1 taps done
  // Of the row before, and of that before it: the difference, of which the
  // older has the newer added twice, and the smooth sum.
  Pixels<kN> difference[2], smooth[2];

  // Takes in a row of the image; gives the blur of the row two above it.
  __device__ Pixels<kN> blurWith(const Colours<kN>& colours) {
    Pixels<kN> grey = greysOf<kN>(colours), blur;
    for (int i = 1; kEdge && i < kN; ++i) {  // lanes outside repeat the border
      if (col < 0) grey.v[i] = grey.v[0];
      if (col >= cols) grey.v[kN - 1 - i] = grey.v[kN - 1];
    }
    const Pixels<kN + 4> wide = withNeighbours<2>(grey);
#pragma unroll
    for (int i = 0; i < kN; ++i) {
      float row = 0.0f;
#pragma unroll
      for (int tap = -2; tap <= 2; ++tap) {
        row = __fmaf_rn(blurWeight(tap), wide.v[i + 2 + tap], row);
      }
      // It is the last tap of one blur, and the first of another.
      blur.v[i] = __fmaf_rn(blurWeight(2), row, column[3].v[i]);
#pragma unroll
      for (int tap = 3; tap > 0; --tap) {
        column[tap].v[i] =
            __fmaf_rn(blurWeight(tap - 2), row, column[tap - 1].v[i]);
      }
      column[0].v[i] = __fmul_rn(blurWeight(-2), row);
    }
    return blur;
  }

  // The row sums of a blurred row. Beyond the border the blur repeats too.
  __device__ void sums(const Pixels<kN>& blur, Pixels<kN>* d, Pixels<kN>* s) {
    Pixels<kN + 2> wide = withNeighbours<1>(blur);
    if (kEdge && col == 0) wide.v[0] = blur.v[0];
    if (kEdge && col + kN == cols) wide.v[kN + 1] = blur.v[kN - 1];
#pragma unroll
    for (int i = 0; i < kN; ++i) {
      rowSums(wide.v[i], wide.v[i + 1], wide.v[i + 2], &d->v[i], &s->v[i]);
    }
  }

  // Makes d and s those of the row before.
  __device__ void push(const Pixels<kN>& d, const Pixels<kN>& s) {
#pragma unroll
    for (int i = 0; i < kN; ++i) {
      difference[1].v[i] = __fmaf_rn(2.0f, d.v[i], difference[0].v[i]);
    }
    difference[0] = d;
    smooth[1] = smooth[0];
    smooth[0] = s;
  }

  // The edges of the row before, when d and s are of the row below it. Adding
  // 2^23 rounds to a whole number, halves to even, in the last bits.
  __device__ unsigned edgesAbove(const Pixels<kN>& d, const Pixels<kN>& s) {
    unsigned bits[kN];
#pragma unroll
    for (int i = 0; i < kN; ++i) {
      const float magnitude = magnitudeOf(__fadd_rn(difference[1].v[i], d.v[i]),
                                          __fsub_rn(s.v[i], smooth[1].v[i]));
      bits[i] =
          __float_as_uint(__fadd_rn(fminf(magnitude, 255.0f), 8388608.0f));
    }
    if constexpr (kN == 4) {
      return __byte_perm(__byte_perm(bits[0], bits[1], 0x0040),
                         __byte_perm(bits[2], bits[3], 0x0040), 0x5410);
    } else {
      return bits[0];
    }
  }

  // Down the rows from top to top + strip, or to the last one. All 32 lanes
  // come along; those that `store` own columns of the image.
  __device__ void run(const unsigned char* d_rgb, unsigned char* d_edges,
                      int rows, int top, int strip, bool store) {
    // Lanes outside read the border: a select on the address, not on what was
    // loaded, which would wait for it.
    const unsigned char* d_col = d_rgb + 3 * min(max(col, 0), cols - kN);
    const ptrdiff_t pitch = 3 * static_cast<ptrdiff_t>(cols);
    const auto load = [&](int row) {
      return loadColours<kN>(d_col + min(row, rows - 1) * pitch);
    };
    // Rows top - 3 to top + 2 give the blurs of top - 1 and top. Above the
    // image the blur of row 0 repeats.
    Pixels<kN> blur, d, s;
    Colours<kN> first[6], ahead[kTogether];
#pragma unroll
    for (int i = 0; i < 6; ++i) first[i] = load(max(top - 3 + i, 0));
#pragma unroll
    for (int i = 0; i < kTogether; ++i) ahead[i] = load(top + 3 + i);
#pragma unroll
    for (int i = 0; i < 5; ++i) blur = blurWith(first[i]);
    if (top > 0) {
      sums(blur, &d, &s);
      push(d, s);
    }
    sums(blurWith(first[5]), &d, &s);
    if (top == 0) push(d, s);
    push(d, s);

    unsigned char* d_out = d_edges + static_cast<size_t>(top) * cols + col;
    const auto finishRow = [&] {
      const unsigned bytes = edgesAbove(d, s);
      if (store) storeBytes<kN>(d_out, bytes);
      d_out += cols;
      push(d, s);
    };
    const int end = min(top + strip, rows);
    const int below = min(end, rows - 1);  // these have a row below them
    int row = top;
    for (; row + kTogether <= below; row += kTogether) {
      Colours<kN> now[kTogether];
#pragma unroll
      for (int i = 0; i < kTogether; ++i) {
        now[i] = ahead[i];
        ahead[i] = load(row + 3 + kTogether + i);
      }
#pragma unroll
      for (int i = 0; i < kTogether; ++i) {
        sums(blurWith(now[i]), &d, &s);
        finishRow();
      }
    }
#pragma unroll 1
    for (; row < below; ++row) {
      sums(blurWith(load(row + 3)), &d, &s);
      finishRow();
    }
    if (row < end) finishRow();  // the last row: the one below it is the same
  }
};

// Launch: 32 x 4 threads, four warps side by side; grid x: strips of `strip`
// rows, y: such groups of warps. Strips and borders are the same for a whole
// block, so that no warp takes two ways. 102 registers a thread, 5 blocks a
// multiprocessor.
template <int kN>
__global__ void __launch_bounds__(kLanes* kStackedWarps, 5)
    frameFused(const unsigned char* d_rgb, unsigned char* d_edges, int rows,
               int cols, int strip) {
  const int lane = threadIdx.x, side = kSideLanes<kN>;
  const int warp = blockIdx.y * kStackedWarps + threadIdx.y;
  const int col = warp * kStripCols<kN> + (lane - side) * kN;
  const int top = blockIdx.x * strip;
  const bool store = lane >= side && lane < kLanes - side && col < cols;
  if (blockIdx.y == 0 || blockIdx.y + 1 == gridDim.y) {
    March<kN, true>{col, cols, {}, {}, {}}.run(d_rgb, d_edges, rows, top, strip,
                                               store);
  } else {
    March<kN, false>{col, cols, {}, {}, {}}.run(d_rgb, d_edges, rows, top,
                                                strip, store);
  }
}

// Rows of a strip. The six halo rows cost a tall one less, but the last warps
// to end leave the card idle, the longer the taller they are. So: what gives
// each multiprocessor 32 warps to go through, of which it holds 20 at a time;
// no fewer than 8 rows, and no more than 128.
inline int stripFor(const FrameJob& job, int width) {
  static const int processors = [] {
    int device = 0, count = 1;
    cudaGetDevice(&device);
    cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device);
    return count;
  }();
  const size_t rows = job.rows * divideUp(job.cols, width) / 32 / processors;
  return static_cast<int>(
      std::clamp<size_t>(rows / kTogether * kTogether, 8, 128));
}
template <int kN>
cudaError_t launchFusedBy(const FrameJob& job) {
  const int strip = stripFor(job, kStripCols<kN>);
  const dim3 grid(divideUp(job.rows, strip),
                  divideUp(job.cols, kStripCols<kN> * kStackedWarps));
  frameFused<kN><<<grid, dim3(kLanes, kStackedWarps), 0, job.stream>>>(
      job.d_rgb, job.d_edges, job.rows, job.cols, strip);
  return cudaGetLastError();
}
inline cudaError_t launchFusedEdges(const FrameJob& job) {
  return job.cols % 4 == 0 ? launchFusedBy<4>(job) : launchFusedBy<1>(job);
}
inline cudaError_t launchFusedFrame(const FrameJob& job) {
  return launchAll(job, {launchFusedEdges, launchHistogram});
}

// ---- many frames ------------------------------------------------------------

// Sends source.frames frames through the slots: frame k through slot k modulo
// their number, and through stream k modulo 2. For each frame: the slot's turn
// before must be over (its event `done`), and taken (source.take); then
// source.fill, and, all in the frame's own stream: the copy in of 3 bytes a
// pixel, source.compute, the copies out of the edges and of 256 bins. At the
// end the frames that are still under way are taken too.
// Record the slot's four events where its comment says; only `done` orders
// anything, the others draw the timeline.
inline Exit streamFrames(FrameSource& source, std::vector<Slot>& slots,
                         const std::vector<cudaStream_t>& streams) {
  // TODO(you): about 25 lines
  (void)source, (void)slots, (void)streams;
  // end TODO
  return kPass;
}

// ---- the report card --------------------------------------------------------

inline Method framesByHand() {
  const Tile tile = {8, 32, 1, 1};
  return {"by hand",
          __FILE__,
          {{"grey", 4, kRgb, kGrey, tile, launchGrey},
           {"blur rows", 5, kGrey, kRows, tile, launchBlurRows},
           {"blur cols", 8, kRows, kBlur, tile, launchBlurCols},
           {"sobel", 8, kBlur, kMagnitude, tile, launchSobel},
           {"to bytes", 5, kMagnitude, kEdges, tile, launchBytes},
           {"histogram", 1, kEdges, kBinned, kNoTile, launchHistogram},
           {"frame, six kernels", 31, kRgb, kFrame, tile, launchSeparate},
           {"edges, fused", 4, kRgb, kEdges, kNoTile, launchFusedEdges,
            launchSeparate},
           {"frame, fused + histogram", 5, kRgb, kFrame, kNoTile,
            launchFusedFrame}},
          false};
}

constexpr const char* kFramesSource = __FILE__;
#ifndef DAY20_NO_FRAMES_MAIN
int main(int argc, char** argv) {
  return framesMain(argc, argv,
                    {"day20 frames",
                     {kLessonSource, kHarnessSource, kFramesSource},
                     {framesByHand()},
                     streamFrames});
}
#endif
