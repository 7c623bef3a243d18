// The frames a third time, in CUB and cuda::std::mdspan: a view knows how large
// its image is, and says in which line of yours an index leaves it.
// Needs CCCL 3, which comes with CUDA 13.
//
// Build:  nvcc -std=c++17 -O3 -arch=sm_75 -o frames_cccl
//             exercises/frames_cccl.cu
// Run:    ./frames_cccl
// No GPU: sh exercises/no-gpu/nvcc ... as above, where CCCL's headers are. The
//         views are the same; CUB's two algorithms, which are for GPUs alone,
//         give way to loops
//
// It includes your frames.cu and frames_thrust.cu, so the report card holds all
// three. You write the Sobel filter and the call of CUB's histogram.
// SPDX-License-Identifier: MIT

#define DAY20_NO_THRUST_MAIN
#include "frames_thrust.cu"

#include <thrust/version.h>
#if THRUST_VERSION < 300000
#error "frames_cccl.cu needs CCCL 3, which comes with CUDA 13"
#endif

#include <cuda/std/mdspan>
#if THRUST_DEVICE_SYSTEM == THRUST_DEVICE_SYSTEM_CUDA
#include <cub/device/device_for.cuh>
#include <cub/device/device_histogram.cuh>
#endif

// lines count from here

// How often a view was asked for what it does not hold.
__device__ unsigned outsideAccesses;

// A rows x cols image in device memory. at(row, col) is the pixel there. An
// index outside is reported, with the place of the call, and counted; the first
// pixel stands in for it, so that the program can go on to say so.
template <class T>
struct View : cuda::std::mdspan<T, cuda::std::dextents<int, 2>> {
  using Base = cuda::std::mdspan<T, cuda::std::dextents<int, 2>>;
  __host__ __device__ View(T* d_data, const FrameJob& job)
      : Base(d_data, job.rows, job.cols) {}

  __device__ T& at(int row, int col, const char* file = __builtin_FILE(),
                   int line = __builtin_LINE()) const {
    const int rows = this->extent(0), cols = this->extent(1);
    if (row >= 0 && row < rows && col >= 0 && col < cols) {
      return (*this)(row, col);
    }
    if (atomicAdd(&outsideAccesses, 1u) == 0) {
      printf("%s:%d: at(%d, %d) is outside a view of %d rows x %d cols\n", file,
             line, row, col, rows, cols);
    }
    return *this->data_handle();
  }
  // The same, the index clamped to the image.
  __device__ T& nearestTo(int row, int col) const {
    return at(nearest(row, this->extent(0)), nearest(col, this->extent(1)));
  }
};

// op(row, col) for pixel i of a row-major image.
template <class Op>
struct AtPixel {
  Op op;
  int cols;
  __device__ void operator()(int i) const { op(i / cols, i % cols); }
};

// Runs op(row, col) for every pixel, in job.stream. ForEachInExtents would give
// row and col by itself, but in CCCL 3.0 each of its blocks goes on to the end
// of the image: some 2000 times the work for 1080 x 1920.
template <class Op>
cudaError_t forEachPixel(const FrameJob& job, Op op) {
  const AtPixel<Op> atPixel = {op, job.cols};
  const int pixels = job.rows * job.cols;
#if THRUST_DEVICE_SYSTEM == THRUST_DEVICE_SYSTEM_CUDA
  return cub::DeviceFor::Bulk(pixels, atPixel, job.stream);
#else
  const cudaError_t status = cudaStreamSynchronize(job.stream);
  for (int i = 0; status == cudaSuccess && i < pixels; ++i) atPixel(i);
  return status;
#endif
}

struct ViewGrey {
  View<const uchar3> rgb;
  View<unsigned char> grey;
  __device__ void operator()(int row, int col) const {
    const uchar3 p = rgb.at(row, col);
    grey.at(row, col) = static_cast<unsigned char>(
        (299 * p.x + 587 * p.y + 114 * p.z + 500) / 1000);
  }
};

// The blur along rows (down 0, right 1) or along cols (down 1, right 0).
template <class T>
struct ViewBlur {
  View<const T> in;
  View<float> out;
  int down, right;
  __device__ void operator()(int row, int col) const {
    float sum = 0.0f;
    for (int tap = -2; tap <= 2; ++tap) {
      sum +=
          blurWeight(tap) * in.nearestTo(row + tap * down, col + tap * right);
    }
    out.at(row, col) = sum;
  }
};

struct ViewSobel {
  View<const float> blur;
  View<float> magnitude;
  __device__ void operator()(int row, int col) const {
    // TODO(you): about 8 lines
    (void)row, (void)col;
    // end TODO
  }
};

struct ViewBytes {
  View<const float> magnitude;
  View<unsigned char> edges;
  __device__ void operator()(int row, int col) const {
    edges.at(row, col) = static_cast<unsigned char>(
        fminf(rintf(magnitude.at(row, col)), 255.0f));
  }
};

inline cudaError_t viewGrey(const FrameJob& job) {
  const uchar3* d_rgb = reinterpret_cast<const uchar3*>(job.d_rgb);
  return forEachPixel(job, ViewGrey{{d_rgb, job}, {job.d_grey, job}});
}
inline cudaError_t viewBlurRows(const FrameJob& job) {
  return forEachPixel(
      job, ViewBlur<unsigned char>{{job.d_grey, job}, {job.d_rows, job}, 0, 1});
}
inline cudaError_t viewBlurCols(const FrameJob& job) {
  return forEachPixel(
      job, ViewBlur<float>{{job.d_rows, job}, {job.d_blur, job}, 1, 0});
}
inline cudaError_t viewSobel(const FrameJob& job) {
  return forEachPixel(job,
                      ViewSobel{{job.d_blur, job}, {job.d_magnitude, job}});
}
inline cudaError_t viewBytes(const FrameJob& job) {
  return forEachPixel(job,
                      ViewBytes{{job.d_magnitude, job}, {job.d_edges, job}});
}
// CUB's histogram: 256 bins between 257 bounds, 0 to 256, in job.stream. It
// works in *bytes bytes of scratch; without any (nullptr) it only sets *bytes
// to what it needs for so many pixels on this card.
inline cudaError_t cubHistogramIn(void* d_scratch, size_t* bytes,
                                  const FrameJob& job) {
  const int pixels = job.rows * job.cols;
#if THRUST_DEVICE_SYSTEM == THRUST_DEVICE_SYSTEM_CUDA
  // TODO(you): about 3 lines
  (void)d_scratch, (void)bytes, (void)pixels;
  return cudaSuccess;
  // end TODO
#else
  if (d_scratch == nullptr) *bytes = 1;
  if (d_scratch == nullptr) return cudaSuccess;
  const cudaError_t status = cudaStreamSynchronize(job.stream);
  if (status != cudaSuccess) return status;
  std::fill(job.d_bins, job.d_bins + kBins, 0u);
  for (int i = 0; i < pixels; ++i) ++job.d_bins[job.d_edges[i]];
  return cudaSuccess;
#endif
}
inline cudaError_t cubHistogram(const FrameJob& job) {
  size_t bytes = job.scratchBytes;
  return cubHistogramIn(job.d_scratch, &bytes, job);
}
inline cudaError_t viewFrame(const FrameJob& job) {
  return launchAll(job, {viewGrey, viewBlurRows, viewBlurCols, viewSobel,
                         viewBytes, cubHistogram});
}
// end of count

// How much scratch the histogram needs for a frame of this size.
inline cudaError_t cubScratch(Size size, size_t* bytes) {
  FrameJob job = {};
  job.rows = static_cast<int>(size.rows);
  job.cols = static_cast<int>(size.cols);
  return cubHistogramIn(nullptr, bytes, job);
}

// After each check: did a view see an index outside?
inline Exit verifyViews() {
  unsigned count = 0;
  const unsigned none = 0;
  CUDA_TRY(cudaMemcpyFromSymbol(&count, outsideAccesses, sizeof count));
  if (count == 0) return kPass;
  CUDA_TRY(cudaMemcpyToSymbol(outsideAccesses, &none, sizeof none));
  fflush(stdout);
  fprintf(stderr, "FAIL %u accesses outside a view, the first shown above\n",
          count);
  return kFailed;
}

inline Method framesInCccl() {
  return {"CUB + mdspan",
          __FILE__,
          {{"grey, CUB", 4, kRgb, kGrey, kNoTile, viewGrey},
           {"blur rows, CUB", 5, kGrey, kRows, kNoTile, viewBlurRows},
           {"blur cols, CUB", 8, kRows, kBlur, kNoTile, viewBlurCols},
           {"sobel, CUB", 8, kBlur, kMagnitude, kNoTile, viewSobel},
           {"to bytes, CUB", 5, kMagnitude, kEdges, kNoTile, viewBytes},
           {"histogram, CUB", 1, kEdges, kBinned, kNoTile, cubHistogram},
           {"frame, CUB", 31, kRgb, kFrame, kNoTile, viewFrame}},
          true,
          verifyViews,
          cubScratch};
}

int main(int argc, char** argv) {
  return framesMain(argc, argv,
                    {"day20 frames, CUB and mdspan",
                     {kLessonSource, kHarnessSource, kFramesSource, __FILE__},
                     {framesByHand(), framesInThrust(), framesInCccl()},
                     streamFrames});
}
