// The frames of frames.cu once more, in Thrust: no kernel, no launch, no grid.
// Thrust comes with the toolkit. The report card sets both side by side: how
// many lines each takes, and how long.
//
// Build:  nvcc -std=c++17 -O3 -arch=sm_75 -o frames_thrust
//             exercises/frames_thrust.cu
// Run:    ./frames_thrust
// No GPU: sh exercises/no-gpu/nvcc ... as above, where Thrust's headers are:
//         its algorithms then run on its own C++ back-end
//
// It includes your frames.cu, which therefore comes first. You write the blur
// and the histogram.
// SPDX-License-Identifier: MIT

#define DAY20_NO_FRAMES_MAIN
#include "frames.cu"

#include <thrust/adjacent_difference.h>
#include <thrust/binary_search.h>
#include <thrust/copy.h>
#include <thrust/execution_policy.h>
#include <thrust/iterator/counting_iterator.h>
#include <thrust/sort.h>
#include <thrust/system_error.h>
#include <thrust/tabulate.h>

// Where an algorithm runs. On a GPU: in the stream, without waiting, from
// Thrust 1.16 on. Elsewhere Thrust computes at once, so what is still under way
// in the stream has to end first.
inline auto inStream(cudaStream_t stream) {
#if THRUST_DEVICE_SYSTEM != THRUST_DEVICE_SYSTEM_CUDA
  cudaStreamSynchronize(stream);
  return thrust::device;
#elif THRUST_VERSION >= 101600
  return thrust::cuda::par_nosync.on(stream);
#else
  return thrust::cuda::par.on(stream);
#endif
}

// lines count from here
//
// Each stage is thrust::tabulate, which fills an image with f(0), f(1), ...;
// what a thread would do is an object that gives the value of pixel i.

struct ThrustGrey {
  const unsigned char* d_rgb;
  __host__ __device__ unsigned char operator()(int i) const {
    const unsigned char* d_at = d_rgb + 3 * static_cast<size_t>(i);
    return static_cast<unsigned char>(
        (299 * d_at[0] + 587 * d_at[1] + 114 * d_at[2] + 500) / 1000);
  }
};

// The blur along rows (down 0, right 1) or along cols (down 1, right 0).
template <class T>
struct ThrustBlur {
  const T* d_in;
  int rows, cols, down, right;
  __host__ __device__ float operator()(int i) const {
    float sum = 0.0f;
    // TODO(you): about 6 lines
    (void)i;
    // end TODO
    return sum;
  }
};

struct ThrustSobel {
  const float* d_blur;
  int rows, cols;
  __host__ __device__ float at(int row, int col) const {
    return d_blur[static_cast<size_t>(nearest(row, rows)) * cols +
                  nearest(col, cols)];
  }
  __host__ __device__ float operator()(int i) const {
    const int y = i / cols, x = i % cols;
    const float gx = at(y - 1, x + 1) - at(y - 1, x - 1) +
                     2.0f * (at(y, x + 1) - at(y, x - 1)) + at(y + 1, x + 1) -
                     at(y + 1, x - 1);
    const float gy = at(y + 1, x - 1) - at(y - 1, x - 1) +
                     2.0f * (at(y + 1, x) - at(y - 1, x)) + at(y + 1, x + 1) -
                     at(y - 1, x + 1);
    return sqrtf(gx * gx + gy * gy);
  }
};

struct ThrustBytes {
  const float* d_magnitude;
  __host__ __device__ unsigned char operator()(int i) const {
    return static_cast<unsigned char>(fminf(rintf(d_magnitude[i]), 255.0f));
  }
};

inline void thrustGrey(const FrameJob& job) {
  thrust::tabulate(inStream(job.stream), job.d_grey, job.d_grey + job.pixels(),
                   ThrustGrey{job.d_rgb});
}
inline void thrustBlurRows(const FrameJob& job) {
  thrust::tabulate(
      inStream(job.stream), job.d_rows, job.d_rows + job.pixels(),
      ThrustBlur<unsigned char>{job.d_grey, job.rows, job.cols, 0, 1});
}
inline void thrustBlurCols(const FrameJob& job) {
  thrust::tabulate(inStream(job.stream), job.d_blur, job.d_blur + job.pixels(),
                   ThrustBlur<float>{job.d_rows, job.rows, job.cols, 1, 0});
}
inline void thrustSobel(const FrameJob& job) {
  thrust::tabulate(inStream(job.stream), job.d_magnitude,
                   job.d_magnitude + job.pixels(),
                   ThrustSobel{job.d_blur, job.rows, job.cols});
}
inline void thrustBytes(const FrameJob& job) {
  thrust::tabulate(inStream(job.stream), job.d_edges,
                   job.d_edges + job.pixels(), ThrustBytes{job.d_magnitude});
}
// Sorted edges (in d_grey, which nobody needs any more) tell how many are not
// above 0, 1, .. 255; the differences of those numbers are the bins.
inline void thrustHistogram(const FrameJob& job) {
  const auto where = inStream(job.stream);
  // TODO(you): about 8 lines
  (void)where, (void)job;
  // end TODO
}
inline void thrustFrame(const FrameJob& job) {
  thrustGrey(job);
  thrustBlurRows(job);
  thrustBlurCols(job);
  thrustSobel(job);
  thrustBytes(job);
  thrustHistogram(job);
}
// end of count

// Thrust throws what goes wrong. This returns it.
template <void (*kStage)(const FrameJob&)>
cudaError_t returned(const FrameJob& job) {
  try {
    kStage(job);
  } catch (const thrust::system_error& error) {
    return static_cast<cudaError_t>(error.code().value());
  } catch (const std::bad_alloc&) {
    return cudaErrorMemoryAllocation;
  }
  return cudaGetLastError();
}

inline Method framesInThrust() {
  return {
      "Thrust",
      __FILE__,
      {{"grey, Thrust", 4, kRgb, kGrey, kNoTile, returned<thrustGrey>},
       {"blur rows, Thrust", 5, kGrey, kRows, kNoTile,
        returned<thrustBlurRows>},
       {"blur cols, Thrust", 8, kRows, kBlur, kNoTile,
        returned<thrustBlurCols>},
       {"sobel, Thrust", 8, kBlur, kMagnitude, kNoTile, returned<thrustSobel>},
       {"to bytes, Thrust", 5, kMagnitude, kEdges, kNoTile,
        returned<thrustBytes>},
       {"histogram, Thrust", 1, kEdges, kBinned, kNoTile,
        returned<thrustHistogram>},
       {"frame, Thrust", 31, kRgb, kFrame, kNoTile, returned<thrustFrame>}},
      true};
}

#ifndef DAY20_NO_THRUST_MAIN
int main(int argc, char** argv) {
  return framesMain(argc, argv,
                    {"day20 frames, Thrust",
                     {kLessonSource, kHarnessSource, kFramesSource, __FILE__},
                     {framesByHand(), framesInThrust()},
                     streamFrames});
}
#endif
