// The gate: a separable blur in two kernels, with your predictions beside what
// was measured. 40 to 60 minutes.
//
// Build:  nvcc -std=c++17 -O3 -arch=sm_75 -o two_pass exercises/two_pass.cu
// Run:    ./two_pass 2>&1 | tee two_pass.txt
// No GPU: sh exercises/no-gpu/nvcc -std=c++17 -O3 -arch=sm_75
//             -o two_pass exercises/two_pass.cu && ./two_pass
//
// This is the whole lesson with one more stage. It is checked in every case,
// and timed, like the stages of convolution.cu, which stays as it is.
//
// 1. Predict: fill in the four predictions. Nothing compiles before that.
// 2. Write blurRows and blurCols, until every case passes. Quicker than the
//    whole run: ./two_pass --cases odd,small,skew
// 3. Run it all, and say in kExplanation why the measured ratio is not the
//    predicted one. Build and run again: that transcript is what you hand in.
//
// Change only what lies between a TODO and its end.
//
// SPDX-License-Identifier: MIT

#define DAY20_EXERCISE
#include "../convolution.cu"

enum Answer { kUnanswered, kNo, kYes };

// ================================================================ predictions
//
// Before the first run, with pencil and paper.

// TODO(you): about 4 lines
// Floats that a block of 32 x 32 outputs loads for a filter of radius 2.
constexpr int kPredictedLoads = 1296;
// Sobel + threshold: the bytes of the two kernels over those of the fused one.
constexpr double kPredictedTraffic = 2.6;
// Is blurTiled faster with pitch 37 than with pitch 36? kNo or kYes.
constexpr Answer kPredictedPadding = kNo;
// Blur: the time of blurRows and blurCols over that of blurSeparable.
constexpr double kPredictedTime = 2.0;
// After the first timed run: why is the last ratio not what you predicted?
// Name what else takes time: launches, caches, barriers, instructions.
constexpr const char* kExplanation =
    "By bytes it is 16 over 8, which is 2.0 only where traffic is the one "
    "limit. The one-kernel form is far from that limit: it waits at two "
    "barriers with one block of 1024 threads on a multiprocessor or two, and "
    "loads a halo. My two kernels have no barrier, and their neighbours' loads "
    "hit the caches, so twice the traffic costs less than twice the time.";
// end TODO

static_assert(kPredictedLoads > 0,
              "predict before you run: set kPredictedLoads to the floats that "
              "one block loads from global memory, halo included");
static_assert(kPredictedTraffic > 0.0 && kPredictedTraffic < 1000.0,
              "predict before you run: set kPredictedTraffic to the bytes that "
              "the two kernels move over the bytes that the fused one moves");
static_assert(kPredictedPadding != kUnanswered,
              "predict before you run: set kPredictedPadding to kNo or kYes");
static_assert(kPredictedTime > 0.0 && kPredictedTime < 1000.0,
              "predict before you run: set kPredictedTime to the time of the "
              "two-kernel blur over that of the one-kernel blur");

// ==================================================================== kernels
//
// Both are launched like the kernels of convolution.cu: 32 x 32 threads, a
// thread an output, ceil(cols / 32) x ceil(rows / 32) blocks. d_rows holds one
// float for each pixel, rows x cols, tightly packed. No shared memory needed.

// d_rows(r, c) = sum over j < 5 of cRow[j] d_in(r, c + j - 2), zero outside.
__global__ void blurRows(const float* d_in, float* d_rows, size_t rows,
                         size_t cols) {
  // TODO(you): about 10 lines
  const size_t col = blockIdx.x * kTile + threadIdx.x;
  const size_t row = blockIdx.y * kTile + threadIdx.y;
  if (row >= rows || col >= cols) return;
  float sum = 0.0f;
  for (int j = 0; j < kTaps; ++j) {
    // Left of column 0 this wraps to a huge number, which fails the same test.
    const size_t x = col + j - kRadius;
    if (x < cols) sum += cRow[j] * d_in[row * cols + x];
  }
  d_rows[row * cols + col] = sum;
  // end TODO
}

// d_out(r, c) = sum over i < 5 of cCol[i] d_rows(r + i - 2, c), zero outside.
__global__ void blurCols(const float* d_rows, float* d_out, size_t rows,
                         size_t cols) {
  // TODO(you): about 10 lines
  const size_t col = blockIdx.x * kTile + threadIdx.x;
  const size_t row = blockIdx.y * kTile + threadIdx.y;
  if (row >= rows || col >= cols) return;
  float sum = 0.0f;
  for (int i = 0; i < kTaps; ++i) {
    const size_t y = row + i - kRadius;
    if (y < rows) sum += cCol[i] * d_rows[y * cols + col];
  }
  d_out[row * cols + col] = sum;
  // end TODO
}

// The row of the table. 16 bytes a pixel: each kernel reads 4 and writes 4.
constexpr const char* kTwoKernelRow = "blur, separable, two kernels";

inline void launchTwoPass(const Job& job) {
  blurRows<<<job.grid(), kBlock>>>(job.d_in, job.d_scratch, job.rows, job.cols);
  blurCols<<<job.grid(), kBlock>>>(job.d_scratch, job.d_floats, job.rows,
                                   job.cols);
}

// ===================================================================== report

// The loads of one block, counted as loadApron makes them.
inline int countLoads() {
  int loads = 0;
  for (int thread = 0; thread < kTile * kTile; ++thread) {
    for (int y = thread / kTile; y < kApron; y += kTile) {
      for (int x = thread % kTile; x < kApron; x += kTile) ++loads;
    }
  }
  return loads;
}

// What was measured, as text: the time of one row over that of another, or the
// change from it in percent.
inline std::string measured(const std::vector<Row>& rows, const char* over,
                            const char* under, bool percent = false) {
  const Row* upper = findRow(rows, over);
  const Row* lower = findRow(rows, under);
  if (!upper || !lower) return "measured nothing, no GPU timings in this run";
  const double ratio = upper->ms / lower->ms;
  char text[80];
  snprintf(text, sizeof text,
           percent ? "measured %+.2f%% time" : "measured %.2f",
           percent ? 100.0 * (ratio - 1.0) : ratio);
  return text;
}

// Prints each prediction beside what was measured, then the explanation.
inline bool printPredictions(const std::vector<Row>& rows) {
  const std::string traffic =
      measured(rows, "sobel + threshold, two kernels", kFusedRow);
  const std::string padding = measured(rows, kPitch37Row, kPitch36Row, true);
  const std::string time = measured(rows, kTwoKernelRow, kSeparableRow);
  printf("loads of a tile: predicted %d, counted %d\n", kPredictedLoads,
         countLoads());
  printf("staged / fused: predicted %.2f, %s\n", kPredictedTraffic,
         traffic.c_str());
  printf("pitch 37 helps: predicted %s, %s\n",
         kPredictedPadding == kYes ? "yes" : "no", padding.c_str());
  printf("two-kernel / one-kernel: predicted %.2f, %s\n", kPredictedTime,
         time.c_str());
  std::string text = kExplanation;
  for (char& c : text) c = c == '\n' || c == '\r' ? ' ' : c;
  if (text.empty() && !rows.empty()) {
    text = "none yet: write kExplanation, then build and run again";
  }
  printf("explanation: %s\n", text.empty() ? "none yet" : text.c_str());
  return true;
}

int main(int argc, char** argv) {
  std::vector<Stage> stages = lessonStages();
  stages.push_back({kTwoKernelRow, 16, Image::kInput, Image::kBlur,
                    Taps::kConstantMemory, Tile{}, launchTwoPass});
  return lessonMain(
      argc, argv,
      {"day20 two_pass", {kLessonSource, __FILE__}, stages, printPredictions});
}
