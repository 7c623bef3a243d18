// The lesson's timed loop, its checks and its gates, for a few rows of the
// table and a picture of any size, so that faults in them show without a GPU
// too, where the whole table at 4096 x 4096 takes minutes.
//
// Run: ./timed ROWS COLS                   on a GPU
//      NOGPU_TIMING=1 ./timed ROWS COLS    without one: no figure means
//      anything
// SPDX-License-Identifier: MIT

#define DAY20_EXERCISE
#include "../../convolution.cu"

// Rows whose times are far apart even on a busy machine.
static std::vector<Stage> someStages() {
  std::vector<Stage> stages;
  for (const Stage& stage : lessonStages()) {
    const std::string label = stage.label;
    if (label == kCopyRow || label == "blur, naive" || label == kPitch36Row ||
        label == kFusedRow || label == kPipelineRow) {
      stages.push_back(stage);
    }
  }
  return stages;
}

static Exit run(Size size) {
  const Program program = {"timed", {}, someStages(), nullptr};
  Card card;
  TRY(preflight(&card));
  if (!card.timing) {
    printf("timing: none, this device has no clock\n");
    return kNoGpu;
  }
  // An emulated card has no memory of its own to be too fast for. No CPU that
  // runs kernels thread by thread comes near these 100 GB/s.
  if (card.memoryKilohertz == 0) {
    card.memoryKilohertz = 1000000;
    card.busBits = 400;
  }
  Workspace work;
  work.size = size;
  work.h_input.resize(size.pixels());
  work.h_bytes.resize(size.pixels());
  work.h_floats.resize(size.pixels());
  Random random(20);
  fillPicture(work, random, 0.0);
  TRY(prepare(work, kLessonFilters, kThreshold));
  std::vector<Row> rows;
  TRY(timeStages(program, Options(), work, &rows));
  printTable(rows);
  const bool passed = judgeTable(rows, program, card, size.pixels());
  printf("result: %s\n", passed ? "pass" : "fail");
  return passed ? kPass : kFailed;
}

int main(int argc, char** argv) {
  if (argc != 3 || atoi(argv[1]) < 1 || atoi(argv[2]) < 1) {
    fprintf(stderr, "usage: %s ROWS COLS\n", argv[0]);
    return kUsage;
  }
  return run({strtoul(argv[1], nullptr, 10), strtoul(argv[2], nullptr, 10)});
}
