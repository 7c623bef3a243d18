// What rotate90.cu is held against: the CPU reference, the cases, the timed
// tables, and the command line. Errors, Netpbm files, timing and reports are
// those of convolution.cu. Nothing here is to be filled in.
//
// Build: it is part of rotate90.cu, which says how.
//
// "Interleaved" is what a PPM holds, RGBRGB...; "planar" is all red samples,
// then all green, then all blue. Sizes are rows x columns, except where a line
// says width x height.
//
// SPDX-License-Identifier: MIT
#pragma once

#define DAY20_EXERCISE
#include "../convolution.cu"

#include <array>

using Bytes = std::vector<unsigned char>;

constexpr const char* kTurnHarness = __FILE__;
constexpr size_t kChannels = 3;
constexpr Size kLargest = {4896, 6528};  // published as 6528 x 4896

// ============================================================= CPU reference

// Turns rows x cols interleaved pixels of `channels` bytes. Goes by the input:
// pixel (row, col) moves to (col, rows - 1 - row), or to the left to
// (cols - 1 - col, row). Also the denominator of the speed-up, and a weak one.
inline void rotateReference(const unsigned char* h_in, unsigned char* h_out,
                            Size size, size_t channels, bool left) {
  const auto [rows, cols] = size;
  for (size_t row = 0; row < rows; ++row) {
    for (size_t col = 0; col < cols; ++col) {
      const size_t to =
          left ? (cols - 1 - col) * rows + row : col * rows + rows - 1 - row;
      for (size_t c = 0; c < channels; ++c) {
        h_out[to * channels + c] = h_in[(row * cols + col) * channels + c];
      }
    }
  }
}

// An interleaved picture.
struct Picture {
  Size size = {0, 0};
  size_t channels = kChannels;
  Bytes h_in;

  size_t samples() const { return size.pixels() * channels; }
  Bytes turned(bool left) const {
    Bytes h_out(samples());
    rotateReference(h_in.data(), h_out.data(), size, channels, left);
    return h_out;
  }
};

// How the samples of a picture lie in device memory.
enum class Layout { kInterleaved, kPlanar, kPlanarFloats };

// Interleaved pixels as the device gets them, byte for byte.
inline Bytes arranged(const Bytes& h_pixels, size_t channels, Layout layout) {
  if (layout == Layout::kInterleaved) return h_pixels;
  const size_t pixels = h_pixels.size() / channels;
  const bool floats = layout == Layout::kPlanarFloats;
  Bytes h_out(h_pixels.size() * (floats ? sizeof(float) : 1));
  for (size_t c = 0; c < channels; ++c) {
    for (size_t i = 0; i < pixels; ++i) {
      const unsigned char sample = h_pixels[i * channels + c];
      const float value = sample;
      const size_t to = c * pixels + i;
      if (floats) {
        memcpy(&h_out[to * sizeof value], &value, sizeof value);
      } else {
        h_out[to] = sample;
      }
    }
  }
  return h_out;
}

// ======================================================= the table of kernels

// What a launch gets: device memory in the kernel's layout, and the size.
struct Turn {
  const unsigned char* d_in;
  unsigned char* d_out;
  Size size;  // of the input
  size_t channels;
  bool left;

  // A block of 32 x 32 outputs each, `planes` deep.
  dim3 grid(size_t planes) const {
    return dim3(tilesOver(size.rows), tilesOver(size.cols),
                static_cast<unsigned>(planes));
  }
};

// One row of the table.
struct Rotation {
  const char* label;
  Layout layout;
  bool turns;  // false: a copy, to compare with
  Tile tile;   // of the output
  void (*launch)(const Turn&);

  // Of one image of the layout.
  size_t bytes(size_t samples) const {
    return layout == Layout::kPlanarFloats ? samples * sizeof(float) : samples;
  }
};

// Rows that other lines of the output refer to.
constexpr const char* kThreeFloats = "planar floats, three launches";
constexpr const char* kOneFloats = "planar floats, one launch";
constexpr const char* kOneBytes = "planar bytes, one launch";
constexpr const char* kPitch32 = "planar floats, tile, pitch 32";
constexpr const char* kPitch33 = "planar floats, tile, pitch 33";
constexpr const char* kPlanarWords = "planar bytes, tile of words";
constexpr const char* kInterleavedWords = "interleaved bytes, tile of words";
constexpr const char* kCpuTurn = "CPU, one thread";

// ================================================================= comparing

// What explains a wrong output: another place that its samples came from, else
// the region that holds every wrong pixel. h_got is interleaved.
inline std::string guessTurn(const Place& at, const Comparison& found,
                             const Picture& picture, bool left,
                             const Bytes& h_got) {
  if (found.unwritten == found.pixels) {
    return "nothing was written: was the kernel launched, and does every "
           "thread store its pixel?";
  }
  const size_t channels = picture.channels;
  const size_t rows = picture.size.rows, cols = picture.size.cols;
  const size_t tileRows = at.tile.rows, tileCols = at.tile.cols;
  // The pixel of the input that belongs at (row, col) of the output.
  const auto source = [=](size_t row, size_t col, bool toLeft) {
    return toLeft ? col * cols + cols - 1 - row : (rows - 1 - col) * cols + row;
  };
  constexpr int kSuspects = 6, kRegions = 4;
  static const char* const suspects[kSuspects] = {
      "turned the other way",
      "transposed: the flip is missing",
      "not turned: the pixels keep their order",
      "each block repeats the first: is the source from threadIdx alone?",
      "the channels are exchanged: blue comes first",
      "a step of one sample where one pixel is meant"};
  static const char* const regions[kRegions] = {
      "the first or last row or column alone: a guard one short?",
      "the middle row or column alone: is an odd side's middle left out?",
      "the partial tiles alone: a grid rounded down, or a width taken from it?",
      "all but the first tile: is the block's place left out?"};
  size_t equal[kSuspects] = {}, outside[kRegions] = {}, right[kRegions] = {};
  for (size_t i = 0; i < found.pixels; ++i) {
    const size_t row = i / at.cols, col = i % at.cols;
    const size_t due = source(row, col, left);
    for (size_t c = 0; c < channels; ++c) {
      const size_t from[kSuspects] = {
          source(row, col, !left) * channels + c,
          (col * cols + row) * channels + c,
          i * channels + c,
          source(row % tileRows, col % tileCols, left) * channels + c,
          due * channels + channels - 1 - c,
          due + c};
      for (int s = 0; s < kSuspects; ++s) {
        equal[s] += h_got[i * channels + c] == picture.h_in[from[s]];
      }
    }
    const bool holds[kRegions] = {
        row == 0 || col == 0 || row + 1 == at.rows || col + 1 == at.cols,
        row == at.rows / 2 || col == at.cols / 2,
        row / tileRows * tileRows + tileRows > at.rows ||
            col / tileCols * tileCols + tileCols > at.cols,
        row >= tileRows || col >= tileCols};
    for (int r = 0; r < kRegions; ++r) {
      if (holds[r]) continue;
      ++(found.mask[i] ? outside[r] : right[r]);
    }
  }
  for (int s = 0; s < kSuspects; ++s) {
    if (equal[s] != h_got.size()) continue;
    return std::string(suspects[s]) + " (all " + std::to_string(equal[s]) +
           " samples equal that)";
  }
  for (int r = 0; r < kRegions; ++r) {
    if (outside[r] != 0 || right[r] == 0) continue;
    return std::string(regions[r]) + " (all " + std::to_string(found.wrong) +
           " wrong pixels lie there)";
  }
  return "shared memory that is read before it is written? (the wrong pixels "
         "follow no pattern known here)";
}

// Holds what two runs left, over 0x00 and over 0xFF, against the pixels that
// are due, sample by sample. Reports the first channel that is wrong.
inline Exit compareTurned(const Rotation& rotation, Place at,
                          const Picture& picture, const Bytes& h_want,
                          bool left, const Bytes& h_over00,
                          const Bytes& h_overFF) {
  static const char* const kNames[] = {", red", ", green", ", blue"};
  const bool floats = rotation.layout == Layout::kPlanarFloats;
  const size_t channels = picture.channels, pixels = picture.size.pixels();
  const Bytes h_due = arranged(h_want, channels, rotation.layout);
  if (h_over00 == h_due && h_overFF == h_due) return kPass;
  const auto sample = [&](const Bytes& h, size_t pixel, size_t c) {
    const size_t i = rotation.layout == Layout::kInterleaved
                         ? pixel * channels + c
                         : c * pixels + pixel;
    float value = h[i];
    if (floats) memcpy(&value, &h[i * sizeof value], sizeof value);
    return value;
  };
  Bytes h_got(h_want.size());
  for (size_t i = 0; i < h_got.size(); ++i) {
    const float value = sample(h_overFF, i / channels, i % channels);
    const bool isByte = value >= 0.0f && value <= 255.0f;  // a NaN is not
    h_got[i] = isByte ? static_cast<unsigned char>(value) : 0;
  }
  for (size_t c = 0; c < channels; ++c) {
    Comparison found;
    found.pixels = pixels;
    for (size_t i = 0; i < pixels; ++i) {
      const float first = sample(h_over00, i, c);
      const float second = sample(h_overFF, i, c), want = sample(h_due, i, c);
      if (first == want && second == want) continue;  // a NaN is never equal
      const Mismatch wrong = {i, first == want ? second : first, want, 0.0};
      const double error = std::fabs(wrong.got - wrong.want);
      if (first == 0.0f &&
          (floats ? bitsOf(second) == kPoison : second == 255.0f)) {
        found.addUnwritten(wrong);
        continue;
      }
      found.notFinite += !isFinite(static_cast<float>(wrong.got));
      found.addWrong(wrong);
      if (error > found.worst) {
        found.worst = error;
        found.worstIndex = i;
      }
    }
    if (found.passed()) continue;
    if (channels == kChannels) at.caseName += kNames[c];
    const bool back = &h_want == &picture.h_in;  // after four turns
    reportFailure(at, found,
                  back ? "right for this shape, wrong for the turned one: rows "
                         "and cols exchanged?"
                       : guessTurn(at, found, picture, left, h_got));
    break;
  }
  return kFailed;
}

// ===================================================================== cases

// Pictures of noise, one of each size, so that no two places look alike; with
// up to 6 pixels they are 1, 2, 3... in red, 101... in green, 201... in blue.
struct TurnCase {
  const char* name;
  std::vector<Size> sizes;
  int again;   // launches of the second run
  bool large;  // left out where there is no clock, unless asked for
};

inline const std::vector<TurnCase>& turnCases() {
  const int again = kWarmUps + kRuns;
  static const std::vector<TurnCase> cases = {
      {"numbers", {{2, 3}, {1, 2}}, again, false},
      // One row or column; a tile of 32, 64 and 128 and one more or less; sides
      // that 4 divides and others.
      {"lines", {{1, 1}, {1, 7}, {7, 1}, {1, 131}, {131, 1}}, again, false},
      {"tiles",
       {{31, 33},
        {33, 31},
        {32, 32},
        {33, 65},
        {61, 63},
        {64, 36},
        {66, 132},
        {132, 67},
        {127, 129},
        {129, 127},
        {128, 64},
        {132, 260}},
       2,
       false},
      // Published as 30 x 21 and 1024 x 462, width x height.
      {"published", {{21, 30}, {462, 1024}}, 1, false},
      {"photo", {{2448, 3264}}, 1, true},  // 3264 x 2448
      {"large", {kLargest}, 1, true},      // and timed
  };
  return cases;
}

inline Picture pictureOf(Size size, Random& random) {
  Picture picture = {size, kChannels, Bytes(size.pixels() * kChannels)};
  for (size_t i = 0; i < picture.samples(); ++i) {
    picture.h_in[i] = static_cast<unsigned char>(
        size.pixels() > 6 ? random() >> 24
                          : 1 + i / kChannels + 100 * (i % kChannels));
  }
  return picture;
}

// Holds the CPU reference itself against what anybody can work out.
inline bool referenceTurns(Size size, size_t channels, const Bytes& h_in,
                           const Bytes& h_right, const Bytes& h_left) {
  const Picture picture = {size, channels, h_in};
  if (picture.turned(false) == h_right && picture.turned(true) == h_left) {
    return true;
  }
  fflush(stdout);
  fprintf(stderr, "FAIL the CPU reference turns %zu rows x %zu cols wrong\n",
          size.rows, size.cols);
  return false;
}
inline bool referenceHolds() {
  const bool numbers = referenceTurns({2, 3}, 1, {1, 2, 3, 4, 5, 6},
                                      {4, 1, 5, 2, 6, 3}, {3, 6, 2, 5, 1, 4});
  const bool redBlue =
      referenceTurns({1, 2}, 3, {255, 0, 0, 0, 0, 255}, {255, 0, 0, 0, 0, 255},
                     {0, 0, 255, 255, 0, 0});
  return numbers && redBlue;
}

// Device memory of one picture, in and out.
struct TurnBuffers {
  DeviceBuffer<unsigned char> d_in, d_out;

  Exit upload(const Bytes& h_in) {
    TRY(d_in.allocate(h_in.size()));
    TRY(d_out.allocate(h_in.size()));
    return d_in.upload(h_in.data());
  }
};

// The buffers of each layout.
using AllBuffers = std::array<TurnBuffers, 3>;

// Launches `times` times over poison, waits, and gets what d_out then holds,
// if anybody wants it.
inline Exit launchTurn(const Rotation& rotation, const Turn& turn, int poison,
                       int times, DeviceBuffer<unsigned char>& d_out,
                       Bytes* h_out) {
  TRY(d_out.fill(poison));
  for (int i = 0; i < times; ++i) rotation.launch(turn);
  cudaError_t status = cudaGetLastError();
  if (status == cudaSuccess) status = cudaDeviceSynchronize();
  if (status != cudaSuccess) {
    const std::string call = "\"" + std::string(rotation.label) + "\"";
    return reportCudaError(__FILE__, __LINE__, call.c_str(), status);
  }
  if (h_out == nullptr) return kPass;
  h_out->resize(rotation.bytes(turn.size.pixels() * turn.channels));
  return d_out.download(h_out->data());
}

// Checks one kernel on one picture: both ways, each over both poisons; then
// four quarter turns, which must give the picture back. A copy only once.
inline Exit checkRotation(const Rotation& rotation, const Picture& picture,
                          const Bytes (&h_turned)[2], const TurnCase& theCase,
                          TurnBuffers& buffers) {
  const auto [rows, cols] = picture.size;
  const std::string name = theCase.name;
  const Place upright = {
      rotation.label, name + (rotation.turns ? ", four quarter turns" : ""),
      rows,           cols,
      rotation.tile,  0};
  TurnBuffers& b = buffers;
  Turn turn = {b.d_in.get(), b.d_out.get(), picture.size, picture.channels,
               false};
  Bytes h_over00, h_overFF;
  for (const bool left : {false, true}) {
    turn.left = left;
    TRY(launchTurn(rotation, turn, 0x00, 1, b.d_out, &h_over00));
    TRY(launchTurn(rotation, turn, 0xFF, theCase.again, b.d_out, &h_overFF));
    if (!rotation.turns) {
      return compareTurned(rotation, upright, picture, picture.h_in, left,
                           h_over00, h_overFF);
    }
    const Place at = {rotation.label, name + (left ? ", left" : ", clockwise"),
                      cols,           rows,
                      rotation.tile,  0};
    TRY(compareTurned(rotation, at, picture, h_turned[left], left, h_over00,
                      h_overFF));
  }
  for (int i = 0; i < 4; ++i) {
    DeviceBuffer<unsigned char>& d_from = i % 2 ? b.d_out : b.d_in;
    DeviceBuffer<unsigned char>& d_to = i % 2 ? b.d_in : b.d_out;
    turn = {d_from.get(), d_to.get(), picture.size, picture.channels, false};
    if (i % 2) std::swap(turn.size.rows, turn.size.cols);
    TRY(launchTurn(rotation, turn, 0xFF, 1, d_to, i < 3 ? nullptr : &h_overFF));
  }
  // d_in holds the picture again, or this says that it does not.
  return compareTurned(rotation, upright, picture, picture.h_in, false,
                       h_overFF, h_overFF);
}

// ====================================================================== main

// What rotate90.cu brings.
struct TurnProgram {
  std::vector<const char*> sources;  // __FILE__ of each
  std::vector<Rotation> rotations;

  const Rotation& named(const char* label) const {
    return *std::find_if(
        rotations.begin(), rotations.end(),
        [=](const Rotation& r) { return std::string(r.label) == label; });
  }
  Program lesson() const { return {"day20 rotate90", sources, {}, nullptr}; }
};

struct TurnOptions {
  bool help = false, version = false, timing = true, left = false;
  std::vector<std::string> cases;  // empty: all
  std::string image, output;
};

// Checks every kernel in one case and prints the case's line.
inline Exit runTurnCase(const TurnCase& theCase, const TurnProgram& program,
                        Picture* picture, AllBuffers& buffers,
                        std::vector<bool>* failed) {
  Random random(20);
  size_t pixels = 0;
  for (const Size& size : theCase.sizes) {
    *picture = pictureOf(size, random);
    pixels += size.pixels();
    const Bytes h_turned[2] = {picture->turned(false), picture->turned(true)};
    for (size_t i = 0; i < program.rotations.size(); ++i) {
      const Rotation& rotation = program.rotations[i];
      if ((*failed)[i]) continue;
      progress(std::string("case ") + theCase.name + ": " + rotation.label);
      TurnBuffers& mine = buffers[static_cast<size_t>(rotation.layout)];
      TRY(mine.upload(arranged(picture->h_in, kChannels, rotation.layout)));
      const Exit exit =
          checkRotation(rotation, *picture, h_turned, theCase, mine);
      if (exit == kNoGpu) return exit;
      (*failed)[i] = exit != kPass;
    }
  }
  progress("");
  const auto held = std::count(failed->begin(), failed->end(), false);
  printf(
      "case %s: %zu sizes, the last %zu rows x %zu cols, %zu pixels, %d of "
      "%zu rows pass: %s\n",
      theCase.name, theCase.sizes.size(), picture->size.rows,
      picture->size.cols, pixels, static_cast<int>(held), failed->size(),
      static_cast<size_t>(held) == failed->size() ? "pass" : "FAIL");
  fflush(stdout);
  return kPass;
}

// Times every row on the picture that the last case left on the device.
inline Exit timeRotations(const TurnProgram& program, const Picture& picture,
                          AllBuffers& buffers, std::vector<Row>* rows) {
  const Bytes h_turned = picture.turned(false);
  std::vector<Timed> all;
  for (const Rotation& rotation : program.rotations) {
    TurnBuffers& mine = buffers[static_cast<size_t>(rotation.layout)];
    DeviceBuffer<unsigned char>& d_out = mine.d_out;
    const Turn turn = {mine.d_in.get(), d_out.get(), picture.size,
                       picture.channels, false};
    const auto recheck = [&] {
      Bytes h_got(rotation.bytes(picture.samples()));
      TRY(d_out.download(h_got.data()));
      Size size = picture.size;
      if (rotation.turns) std::swap(size.rows, size.cols);
      const Place at = {rotation.label, "large, after the timed loop",
                        size.rows,      size.cols,
                        rotation.tile,  0};
      return compareTurned(rotation, at, picture,
                           rotation.turns ? h_turned : picture.h_in, false,
                           h_got, h_got);
    };
    all.push_back({rotation.label, 2 * rotation.bytes(picture.samples()),
                   [&rotation, turn] { rotation.launch(turn); },
                   [&d_out] { return d_out.fill(0xFF); }, recheck});
  }
  TRY(timeInRounds(all, rows));
  Bytes h_out(picture.samples());
  const auto start = std::chrono::steady_clock::now();
  rotateReference(picture.h_in.data(), h_out.data(), picture.size,
                  picture.channels, false);
  rows->push_back({kCpuTurn, 0, hostMs(start), -1.0});
  return h_out == h_turned ? kPass : kFailed;
}

// Milliseconds of one turn of a file.
struct TurnTimes {
  double load = 0.0, copyIn = 0.0, kernel = 0.0, copyOut = 0.0;
  double whole() const { return load + copyIn + kernel + copyOut; }
  void add(const TurnTimes& one, int parts) {
    load += one.load / parts;
    copyIn += one.copyIn / parts;
    kernel += one.kernel / parts;
    copyOut += one.copyOut / parts;
  }
};

// Reads a file, and the time that it takes to have its pixels in the layout.
inline Exit loadPicture(const std::string& path, Layout layout, Netpbm* file,
                        Bytes* h_in, double* ms) {
  const auto start = std::chrono::steady_clock::now();
  std::string note;
  const std::string error = readNetpbm(path, *file, note);
  if (!error.empty()) {
    fflush(stdout);
    fprintf(stderr, "%s: %s\n", path.c_str(), error.c_str());
    return kUsage;
  }
  if (!note.empty()) printf("%s: %s\n", path.c_str(), note.c_str());
  *h_in = arranged(file->raster, file->channels, layout);
  *ms = hostMs(start);
  return kPass;
}

// Copies a picture in, turns it, copies it out over poison. Times that, where
// the device has a clock.
inline Exit turnOnce(const Rotation& rotation, const Picture& picture,
                     bool left, const Bytes& h_in, int poison, bool timing,
                     TurnBuffers& buffers, Bytes* h_out, TurnTimes* times) {
  Event start, in, done, out;
  h_out->resize(h_in.size());
  TRY(buffers.upload(h_in));  // allocates, and warms up
  TRY(buffers.d_out.fill(poison));
  TRY(start.record());
  TRY(buffers.upload(h_in));
  TRY(in.record());
  rotation.launch({buffers.d_in.get(), buffers.d_out.get(), picture.size,
                   picture.channels, left});
  CUDA_TRY(cudaGetLastError());
  TRY(done.record());
  TRY(buffers.d_out.download(h_out->data()));
  TRY(out.record());
  CUDA_TRY(cudaDeviceSynchronize());
  if (!timing) return kPass;
  TRY(in.since(start, &times->copyIn));
  TRY(done.since(in, &times->kernel));
  return out.since(done, &times->copyOut);
}

// The last table: what a turn of a file costs from end to end, with the
// simplest kernel on floats, with the best one on bytes, and on the CPU.
// Every output is checked.
inline Exit runTurns(const TurnProgram& program, const std::string& path) {
  constexpr int kTurns = 12;
  printf(
      "\nms a turn, mean of %d turns; copies from and to pageable memory\n"
      "width x height samples      load   copy in    kernel  copy out     "
      "whole  CPU turn CPU whole  x whole x kernel\n",
      kTurns);
  Exit exit = kPass;
  for (const Size& size : {Size{21, 30}, Size{2448, 3264}, kLargest}) {
    Random random(20);
    const Picture picture = pictureOf(size, random);
    const std::string error =
        writeNetpbm(path, picture.h_in.data(), size.rows, size.cols, kChannels);
    if (!error.empty()) {
      fprintf(stderr, "%s: %s\n", path.c_str(), error.c_str());
      return kUsage;
    }
    Netpbm file;
    Bytes h_in, h_want(picture.samples()), h_out;
    TurnTimes cpu;
    for (int i = 0; i < kTurns; ++i) {
      progress("turn " + std::to_string(i + 1) + " on the CPU");
      TurnTimes times;
      TRY(loadPicture(path, Layout::kInterleaved, &file, &h_in, &times.load));
      const auto start = std::chrono::steady_clock::now();
      rotateReference(h_in.data(), h_want.data(), size, kChannels, false);
      times.kernel = hostMs(start);
      cpu.add(times, kTurns);
    }
    for (const char* label : {kOneFloats, kInterleavedWords}) {
      const Rotation& rotation = program.named(label);
      const Place at = {label,     "12 turns",    size.cols,
                        size.rows, rotation.tile, 0};
      TurnBuffers buffers;
      TurnTimes gpu;
      for (int i = 0; i < kTurns && exit == kPass; ++i) {
        progress("turn " + std::to_string(i + 1) + ": " + label);
        TurnTimes times;
        TRY(loadPicture(path, rotation.layout, &file, &h_in, &times.load));
        TRY(turnOnce(rotation, picture, false, h_in, 0xFF, true, buffers,
                     &h_out, &times));
        exit =
            compareTurned(rotation, at, picture, h_want, false, h_out, h_out);
        gpu.add(times, kTurns);
      }
      progress("");
      printf(
          "%5zu x %-5zu  %-7s %9.3f %9.3f %9.4f %9.3f %9.3f %9.3f %9.3f "
          "%8.2f %8.1f\n",
          size.cols, size.rows,
          rotation.layout == Layout::kPlanarFloats ? "floats" : "bytes",
          gpu.load, gpu.copyIn, gpu.kernel, gpu.copyOut, gpu.whole(),
          cpu.kernel, cpu.whole(), cpu.whole() / gpu.whole(),
          cpu.kernel / gpu.kernel);
    }
  }
  return exit;
}

// One line: the time of a row over that of another.
inline void printRatio(const std::vector<Row>& rows, const char* over,
                       const char* under, const char* words) {
  const Row* upper = findRow(rows, over);
  const Row* lower = findRow(rows, under);
  if (!upper || !lower) return;
  printf("%s / %s: %.3f of the time (%s)\n", over, under, upper->ms / lower->ms,
         words);
}

// What the table shows, recomputed from its rows.
inline void printLessons(const std::vector<Row>& rows) {
  printRatio(rows, kThreeFloats, kOneFloats, "launches alone: near 1");
  printRatio(rows, kOneFloats, kOneBytes, "4 times the bytes, as many loads");
  printRatio(rows, kPitch33, kPitch32, "conflict degree 1 instead of 32");
  printRatio(rows, kInterleavedWords, kPlanarWords,
             "no need to split and merge channels");
  double copy = 0.0;
  const Row* best = nullptr;
  for (const Row& row : rows) {
    const bool copies = row.label.rfind("copy", 0) == 0;
    if (copies) copy = std::max(copy, row.gigabytesPerSecond());
    if (copies || row.label.find("bytes") == std::string::npos) continue;
    if (!best || row.ms < best->ms) best = &row;
  }
  if (best) {
    printf("best rotation of RGB bytes: %s, %.3f of the best copy\n",
           best->label.c_str(), best->gigabytesPerSecond() / copy);
  }
  const Row* plain = findRow(rows, kPitch32);
  const Row* padded = findRow(rows, kPitch33);
  if (plain && padded && padded->ms > 0.97 * plain->ms) {
    printf(
        "note: pitch 33 gains nothing over pitch 32 here: is the kernel's "
        "tile padded?\n");
  }
}

// Every case asked for, then the tables.
inline Exit runRotations(const TurnProgram& program,
                         const TurnOptions& options) {
  Card card;
  TRY(preflight(&card));
  printHeader(program.lesson(), Options{}, card);
  Picture picture;
  AllBuffers buffers;
  std::vector<bool> failed(program.rotations.size(), false);
  bool passed = referenceHolds(), large = false;
  for (const TurnCase& theCase : turnCases()) {
    const bool asked = std::count(options.cases.begin(), options.cases.end(),
                                  theCase.name) != 0;
    if (!asked && !options.cases.empty()) continue;
    if (!asked && theCase.large && !card.timing) {
      printf("case %s: left out, it takes a GPU, or else --cases %s\n",
             theCase.name, theCase.name);
      continue;
    }
    TRY(runTurnCase(theCase, program, &picture, buffers, &failed));
    large = std::string(theCase.name) == "large";
  }
  passed = passed && std::count(failed.begin(), failed.end(), true) == 0;
  if (!card.timing) {
    printf("timing: none, this device has no clock\n");
  } else if (!large || !options.timing) {
    printf("timing: not asked for\n");
  } else if (!passed) {
    printf("timing: none, since a check failed\n");
  } else {
    std::vector<Row> rows;
    Exit exit = timeRotations(program, picture, buffers, &rows);
    if (exit == kPass) {
      printTable(rows);
      printLessons(rows);
      passed = judgeTable(rows, program.lesson(), card, picture.size.pixels());
      const char* const path = "day20_rotate90.ppm";
      exit = runTurns(program, path);
      std::error_code ignored;
      std::filesystem::remove(path, ignored);
    }
    if (exit == kNoGpu || exit == kUsage) return exit;
    passed = passed && exit == kPass;
  }
  printf("result: %s\n", passed ? "pass" : "fail");
  return passed ? kPass : kFailed;
}

// Samples of any maxval as bytes of maxval 255, rounded to nearest.
inline Bytes scaledToBytes(const Netpbm& file) {
  Bytes h_out(file.samples());
  const bool wide = file.bytesPerSample() == 2;
  for (size_t i = 0; i < h_out.size(); ++i) {
    const unsigned value =
        wide ? file.raster[2 * i] << 8 | file.raster[2 * i + 1]
             : file.raster[i];
    h_out[i] = static_cast<unsigned char>((value * 255 + file.maxval / 2) /
                                          file.maxval);
  }
  return h_out;
}

// Reads back what was written: its header and every sample.
inline Exit checkFile(const std::string& path, const Bytes& h_want, Size size) {
  Netpbm file;
  std::string note;
  const std::string error = readNetpbm(path, file, note);
  if (error.empty() && file.rows == size.rows && file.cols == size.cols &&
      file.raster == h_want) {
    return kPass;
  }
  fflush(stdout);
  fprintf(stderr,
          "FAIL %s, read back, is %zu rows x %zu cols and not the %zu x %zu "
          "picture that was checked%s%s\n",
          path.c_str(), file.rows, file.cols, size.rows, size.cols,
          error.empty() ? "" : ": ", error.c_str());
  return kFailed;
}

// Turns the user's own picture, checks and writes it.
inline Exit runOwnPicture(const TurnProgram& program,
                          const TurnOptions& options) {
  Netpbm file;
  Picture picture;
  TurnTimes times;
  TRY(loadPicture(options.image, Layout::kInterleaved, &file, &picture.h_in,
                  &times.load));
  picture.size = {file.rows, file.cols};
  picture.channels = static_cast<size_t>(file.channels);
  if (file.maxval != 255) {
    picture.h_in = scaledToBytes(file);
    printf("%s: maxval %u becomes 255\n", options.image.c_str(), file.maxval);
  }
  const Rotation& rotation =
      program.named(file.channels == 1 ? kPlanarWords : kInterleavedWords);
  const size_t limit = size_t{65535} * rotation.tile.rows;
  if (file.rows >> 30 != 0 || file.cols > limit) {
    fprintf(stderr,
            "%s: %zu rows x %zu cols are too many: rows must be under 2^30, "
            "and a grid has at most 65535 blocks in y, %zu cols\n",
            options.image.c_str(), file.rows, file.cols, limit);
    return kUsage;
  }
  Card card;
  TRY(preflight(&card));
  printHeader(program.lesson(), Options{}, card);
  // Twice, over both poisons: the first run warms up, the second counts.
  TurnBuffers buffers;
  Bytes h_over00, h_out;
  for (Bytes* h : {&h_over00, &h_out}) {
    TRY(turnOnce(rotation, picture, options.left, picture.h_in,
                 h == &h_out ? 0xFF : 0x00, card.timing, buffers, h, &times));
  }
  const Size size = {file.cols, file.rows};
  const Place at = {rotation.label, options.image, size.rows,
                    size.cols,      rotation.tile, 0};
  TRY(compareTurned(rotation, at, picture, picture.turned(options.left),
                    options.left, h_over00, h_out));
  const std::string error = writeNetpbm(options.output, h_out.data(), size.rows,
                                        size.cols, file.channels);
  if (!error.empty()) {
    fprintf(stderr, "%s: %s\n", options.output.c_str(), error.c_str());
    return kUsage;
  }
  std::error_code ignored;
  if (std::filesystem::is_regular_file(options.output, ignored)) {
    TRY(checkFile(options.output, h_out, size));
  }
  printf("%s: %zu rows x %zu cols, %s, turned %s\n", options.image.c_str(),
         file.rows, file.cols, file.channels == 1 ? "grey" : "RGB",
         options.left ? "left" : "clockwise");
  printf("%s: %zu rows x %zu cols, equal to the CPU reference\n",
         options.output.c_str(), size.rows, size.cols);
  printf("host: load %.1f ms\n", times.load);
  if (card.timing) {
    printf("device: copy in %.3f ms, kernel %.4f ms, copy out %.3f ms\n",
           times.copyIn, times.kernel, times.copyOut);
  }
  printf("result: pass\n");
  return kPass;
}

inline void printTurnUsage(FILE* stream, const char* program) {
  fprintf(stream,
          "usage: %s [--cases LIST] [--no-timing]\n"
          "       %s IMAGE [-o OUT] [--left]\n"
          "\n"
          "Without an IMAGE: checks every kernel in every case, then times "
          "them.\n"
          "  --cases LIST   only these, with commas between:",
          program, program);
  for (const TurnCase& theCase : turnCases()) {
    fprintf(stream, " %s", theCase.name);
  }
  fprintf(stream,
          "\n"
          "                 (the tables need large)\n"
          "  --no-timing    no tables\n"
          "With an IMAGE (PGM or PPM): turns it by 90 degrees, clockwise.\n"
          "  --left         the other way\n"
          "  -o OUT         the name of the output; IMAGE_turned.ppm or .pgm "
          "unless given\n"
          "  --help, --version\n"
          "exit code: 0 passed, 1 a check failed, 2 usage or bad input, "
          "3 no usable GPU or a CUDA error\n");
}

// Fills in the options. Returns what is wrong with the command line, or "".
inline std::string parseTurnOptions(int argc, char** argv,
                                    TurnOptions* options) {
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const bool takesValue = word == "-o" || word == "--cases";
    if (takesValue && i + 1 == argc) return word + " needs a value";
    const std::string value = takesValue ? argv[++i] : "";
    if (word == "--help" || word == "-h") {
      options->help = true;
    } else if (word == "--version") {
      options->version = true;
    } else if (word == "--no-timing") {
      options->timing = false;
    } else if (word == "--left") {
      options->left = true;
    } else if (word == "-o") {
      options->output = value;
    } else if (word == "--cases") {
      for (size_t at = 0; at <= value.size();) {
        const size_t comma = std::min(value.find(',', at), value.size());
        const std::string name = value.substr(at, comma - at);
        at = comma + 1;
        bool known = false;
        for (const TurnCase& one : turnCases()) known |= name == one.name;
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
  if (options->image.empty() && (options->left || !options->output.empty())) {
    return "--left and -o need an IMAGE";
  }
  if (!options->image.empty() && !options->cases.empty()) {
    return "--cases does not go with an IMAGE";
  }
  if (options->output.empty()) {
    std::filesystem::path path(options->image);
    path.replace_filename(path.stem().string() + "_turned" +
                          path.extension().string());
    options->output = path.string();
  }
  return "";
}

inline int turnMain(int argc, char** argv, const TurnProgram& program) {
  TurnOptions options;
  const std::string error = parseTurnOptions(argc, argv, &options);
  if (const auto exit = answered(argv[0], error, options.help, options.version,
                                 program.lesson().title, printTurnUsage)) {
    return *exit;
  }
  return options.image.empty() ? runRotations(program, options)
                               : runOwnPicture(program, options);
}
