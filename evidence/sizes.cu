// Every stage of the lesson at other sizes than the table's, checked and timed,
// and again over four rotating sets of buffers, which no cache can hold.
//
// Build:  nvcc -std=c++17 -O3 -arch=sm_75 -o sizes evidence/sizes.cu
// Run:    ./sizes                     about a minute, 11 GB of host memory
//         ./sizes 611x613 1080x1920   these sizes only, rows x cols
//
// SPDX-License-Identifier: MIT

#define DAY20_EXERCISE
#include "../convolution.cu"

// How many sets of buffers the second timing rotates through.
constexpr size_t kSets = 4;

inline const std::vector<Size>& allSizes() {
  static const std::vector<Size> sizes = {
      {611, 613},   {1024, 1024}, {1080, 1920},  {2048, 2048},
      {4096, 4096}, {8192, 8192}, {16384, 16384}};
  return sizes;
}

// Fills work with the repeated picture of the given size, and checks every
// stage on it.
inline Exit checkAll(const std::vector<Stage>& stages, Workspace& work) {
  Random random(20);
  work.h_input.resize(work.size.pixels());
  progress("reference of " + std::to_string(work.size.rows) + " rows");
  fillPicture(work, random, 0.0);
  TRY(prepare(work, kLessonFilters, kThreshold));
  for (const Stage& stage : stages) {
    const Place at = {stage.label,    "sizes",    work.size.rows,
                      work.size.cols, stage.tile, reachOf(stage)};
    Comparison found;
    TRY(checkStage(stage, at, 1, kLessonFilters, kThreshold, work, &found));
  }
  return kPass;
}

// What to time: every stage, on the first `count` sets of buffers in turn.
inline std::vector<Timed> timedOver(const std::vector<Stage>& stages,
                                    const std::vector<Workspace>& sets,
                                    size_t count) {
  const auto nothing = [] { return kPass; };
  std::vector<Timed> all;
  for (const Stage& stage : stages) {
    std::vector<Job> jobs;
    for (size_t i = 0; i < count; ++i) {
      jobs.push_back(jobFor(stage, sets[i], kThreshold));
    }
    size_t turn = 0;
    all.push_back({stage.label, stage.bytesPerPixel * jobs[0].pixels(),
                   [&stage, jobs, turn]() mutable {
                     stage.launch(jobs[turn++ % jobs.size()]);
                   },
                   nothing, nothing});
  }
  return all;
}

// Checks and times one size; with `rotate`, over kSets sets as well.
inline Exit measure(const std::vector<Stage>& stages, Size size, bool rotate) {
  std::vector<Workspace> sets(rotate ? kSets : 1);
  for (Workspace& work : sets) {
    work.size = size;
    TRY(checkAll(stages, work));
  }
  std::vector<Row> once, rotated;
  TRY(timeInRounds(timedOver(stages, sets, 1), &once));
  if (rotate) TRY(timeInRounds(timedOver(stages, sets, kSets), &rotated));
  double best = 0.0;
  for (const Row& row : once) {
    if (row.label.rfind("copy", 0) == 0) {
      best = std::max(best, row.gigabytesPerSecond());
    }
  }
  printf("\n%zu rows x %zu cols, every stage checked\n", size.rows, size.cols);
  printf("%-34s %10s %8s %7s %7s %8s%s\n", "stage", "ms", "ps/pixel", "GB/s",
         "x best", "spread", rotate ? "  4 sets, ms    ratio" : "");
  for (size_t i = 0; i < once.size(); ++i) {
    const Row& row = once[i];
    printf("%-34s %10.4f %8.3f %7.0f %7.3f %7.2f%%", row.label.c_str(), row.ms,
           row.ms * 1e9 / static_cast<double>(size.pixels()),
           row.gigabytesPerSecond(), row.gigabytesPerSecond() / best,
           100.0 * row.spread);
    if (rotate) {
      printf(" %12.4f %8.3f", rotated[i].ms, rotated[i].ms / row.ms);
    }
    printf("\n");
  }
  fflush(stdout);
  return kPass;
}

inline Exit run(const std::vector<Size>& sizes) {
  const Program program = {
      "day20 sizes", {kLessonSource, __FILE__}, lessonStages(), nullptr};
  Card card;
  TRY(preflight(&card));
  printHeader(program, Options(), card);
  if (!card.timing) {
    printf("timing: none, this device has no clock\n");
    return kNoGpu;
  }
  for (const Size& size : sizes) {
    TRY(measure(program.stages, size,
                size.rows == kPerfSize && size.cols == kPerfSize));
  }
  printf("result: pass\n");
  return kPass;
}

int main(int argc, char** argv) {
  std::vector<Size> sizes;
  for (int i = 1; i < argc; ++i) {
    unsigned rows = 0, cols = 0;
    if (sscanf(argv[i], "%ux%u", &rows, &cols) != 2 || rows == 0 || cols == 0) {
      fprintf(stderr, "usage: %s [ROWSxCOLS ...]\n", argv[0]);
      return kUsage;
    }
    sizes.push_back({rows, cols});
  }
  return run(sizes.empty() ? allSizes() : sizes);
}
