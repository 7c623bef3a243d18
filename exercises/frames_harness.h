// What frames.cu, frames_thrust.cu and frames_cccl.cu share: the pipeline in
// words and numbers, its CPU reference, the test of every stage, the streams
// and their test, the report card, folders of files, main. Not a program: it is
// built and run as part of those three.
// SPDX-License-Identifier: MIT
//
// A frame is rows x cols x 3 bytes: red, green, blue. It becomes, one after
// the other:
//   grey       byte    (299 R + 587 G + 114 B + 500) / 1000 in whole numbers:
//                      0.299, 0.587, 0.114, rounded to nearest, halves up
//   rows       float   sum over j of w(j) grey(r, c + j), j = -2..2
//   blur       float   sum over i of w(i) rows(r + i, c); w: Gaussian, sigma 1
//   magnitude  float   sqrt(gx^2 + gy^2): Sobel 3 x 3 of the blur, up to 1140
//   edges      byte    magnitude rounded to nearest, halves to even, up to 255
//   bins       256     how many edges have each of the values 0 to 255
// All are in units of 0 to 255, so white stays 255. At the border every tap is
// clamped to the image on its own: the edge pixel repeats. A frame of 2 x 2,
// red and green above blue and white, gives
//   grey        76       150          29       255
//   blur        98.5103  145.2453     98.3287  167.9157
//   magnitude  210.9555  220.4848    256.4523  264.3466
//   edges      211       220         255       255    (the last two saturate)
#pragma once
#define DAY20_EXERCISE
#include "../convolution.cu"

#include <atomic>
#include <fstream>
#include <numeric>
#include <thread>

constexpr const char* kHarnessSource = __FILE__;

// ============================================================== the pipeline

constexpr size_t kBins = 256;        // whatever the image holds
constexpr size_t kMostSide = 32768;  // rows and cols of a frame
constexpr double kFrameAbs = 1e-4;   // of a float, in grey levels
constexpr double kTieBand = 1e-3;    // around a half, in grey levels

// w(-2) to w(2). They sum to 1. A function, since an array would not exist on
// the device.
__host__ __device__ constexpr float blurWeight(int tap) {
  return tap == 0 ? 0.38774f : tap == 1 || tap == -1 ? 0.24477f : 0.06136f;
}
// The index inside that is nearest to i.
__host__ __device__ constexpr int nearest(int i, int extent) {
  return i < 0 ? 0 : i < extent ? i : extent - 1;
}

// The planes of a frame, in the order in which they come about. kFrame: edges
// and bins together.
enum Plane { kRgb, kGrey, kRows, kBlur, kMagnitude, kEdges, kBinned, kFrame };
constexpr int kPlanes = kFrame;
inline size_t bytesOf(int plane, size_t pixels) {
  return plane == kRgb                       ? 3 * pixels
         : plane == kGrey || plane == kEdges ? pixels
         : plane == kBinned                  ? kBins * sizeof(unsigned)
                                             : sizeof(float) * pixels;
}

// What a stage's launch gets: every plane of one frame in device memory, and
// the stream to work in. A stage reads one plane and writes another; those
// between and after may serve as scratch.
struct FrameJob {
  unsigned char *d_rgb, *d_grey;
  float *d_rows, *d_blur, *d_magnitude;
  unsigned char* d_edges;
  unsigned* d_bins;
  void* d_scratch;  // what the method's needsScratch asked for
  size_t scratchBytes;
  int rows, cols;
  cudaStream_t stream;
  size_t pixels() const { return static_cast<size_t>(rows) * cols; }
};

// The owner of a pixel is not known: a library, or a warp that marches.
constexpr Tile kNoTile = {1 << 30, 1 << 30, 1, 1};

// What goes wrong in a launch is returned, also by a library.
using Launch = cudaError_t (*)(const FrameJob&);

// One after the other, up to the first that goes wrong.
inline cudaError_t launchAll(const FrameJob& job,
                             std::initializer_list<Launch> launches) {
  for (const Launch launch : launches) {
    const cudaError_t status = launch(job);
    if (status != cudaSuccess) return status;
  }
  return cudaSuccess;
}

// One row of the report card.
struct FrameStage {
  const char* label;
  size_t bytesPerPixel;  // that it must move, whatever the caches do
  Plane reads, writes;
  Tile tile;
  Launch launch;
  // Must give the same edges, bit for bit.
  Launch twin = nullptr;
};

// One way to compute frames. The first stage that writes a kFrame runs the
// others in a chain; the last stage of all is what the streams run.
struct Method {
  const char* name;
  const char* source;  // its lines between "lines count" and "end of count"
  std::vector<FrameStage> stages;
  bool needsPlanes;  // in the streams: every plane, not only both ends
  // After every check: did anything else go wrong?
  Exit (*verify)() = nullptr;
  // How many bytes of scratch a library wants for frames of this size: it
  // depends on the card too, so it has to be asked.
  cudaError_t (*needsScratch)(Size, size_t* bytes) = nullptr;

  const FrameStage& chain() const {
    return *std::find_if(stages.begin(), stages.end(),
                         [](const auto& s) { return s.writes == kFrame; });
  }
};

// ============================================================= CPU reference
//
// Plain loops, sums in double. A Variant other than the default is a mistake:
// what would the plane be if somebody made it? The guesses are made with these.

enum class Border { kReplicate, kZero, kMirror, kDoubled };
enum class Gradient { kBoth, kX, kY, kPositive, kSum };
enum class Rounding { kNearest, kTruncate, kWrap };
struct Variant {
  Border border = Border::kReplicate;
  Gradient gradient = Gradient::kBoth;
  Rounding rounding = Rounding::kNearest;
  bool otherAxis = false;
  int red = 299, green = 587, blue = 114, half = 500;
};

// The index that stands in for i, or -1 for a zero.
inline ptrdiff_t sourceOf(ptrdiff_t i, ptrdiff_t extent, Border border) {
  if (i >= 0 && i < extent) return i;
  const ptrdiff_t edge = i < 0 ? 0 : extent - 1;
  if (border == Border::kZero) return -1;
  if (border != Border::kMirror) return edge;
  return std::clamp(2 * edge - i, ptrdiff_t{0}, extent - 1);
}

// The weighted sum of five pixels, along rows or along cols.
template <class T>
float blurredAt(const std::vector<T>& h_in, Size size, size_t at,
                bool alongRows, Border border) {
  const ptrdiff_t row = at / size.cols, col = at % size.cols;
  const ptrdiff_t extent = alongRows ? size.cols : size.rows;
  const ptrdiff_t place = alongRows ? col : row,
                  step = alongRows ? 1 : size.cols;
  double sum = 0.0;
  for (int tap = -2; tap <= 2; ++tap) {
    const ptrdiff_t from = sourceOf(place + tap, extent, border);
    if (from < 0) continue;
    const bool twice = border == Border::kDoubled && from != place + tap;
    sum += (twice ? 2.0 : 1.0) * blurWeight(tap) *
           h_in[at + (from - place) * step];
  }
  return static_cast<float>(sum);
}

inline float magnitudeAt(const std::vector<float>& h_blur, Size size, size_t at,
                         Border border, Gradient kind) {
  const ptrdiff_t row = at / size.cols, col = at % size.cols;
  double value[3][3], gx = 0.0, gy = 0.0;
  for (int i = 0; i < 3; ++i) {
    const ptrdiff_t y = sourceOf(row + i - 1, size.rows, border);
    for (int j = 0; j < 3; ++j) {
      const ptrdiff_t x = sourceOf(col + j - 1, size.cols, border);
      value[i][j] = y < 0 || x < 0 ? 0.0 : h_blur[y * size.cols + x];
    }
  }
  for (int i = 0; i < 3; ++i) {
    gx += (i == 1 ? 2 : 1) * (value[i][2] - value[i][0]);
    gy += (i == 1 ? 2 : 1) * (value[2][i] - value[0][i]);
  }
  if (kind == Gradient::kPositive) {
    gx = std::max(gx, 0.0);
    gy = std::max(gy, 0.0);
  }
  if (kind == Gradient::kX) gy = 0.0;
  if (kind == Gradient::kY) gx = 0.0;
  return static_cast<float>(kind == Gradient::kSum
                                ? std::fabs(gx) + std::fabs(gy)
                                : std::sqrt(gx * gx + gy * gy));
}

inline int edgeOf(float magnitude, Rounding rounding) {
  const int whole = static_cast<int>(rounding == Rounding::kTruncate
                                         ? std::floor(magnitude)
                                         : std::nearbyint(magnitude));
  return rounding == Rounding::kWrap ? whole & 255 : std::min(whole, 255);
}

inline std::vector<unsigned> binsOf(const unsigned char* h_edges,
                                    size_t pixels) {
  std::vector<unsigned> h_bins(kBins, 0);
  for (size_t i = 0; i < pixels; ++i) ++h_bins[h_edges[i]];
  return h_bins;
}

// A frame on the host, and what must become of it.
struct HostFrame {
  Size size = {0, 0};
  std::vector<unsigned char> rgb, grey, edges;
  std::vector<float> rows, blur, magnitude;
  std::vector<unsigned> bins;

  // A plane from the one before it.
  template <class T>
  void compute(int plane, const Variant& v, std::vector<T>* h_out) const {
    h_out->resize(size.pixels());
    for (size_t i = 0; i < h_out->size(); ++i) {
      const unsigned char* p = &rgb[3 * i];
      (*h_out)[i] = static_cast<T>(
          plane == kGrey
              ? (v.red * p[0] + v.green * p[1] + v.blue * p[2] + v.half) / 1000
          : plane == kRows ? blurredAt(grey, size, i, !v.otherAxis, v.border)
          : plane == kBlur ? blurredAt(rows, size, i, v.otherAxis, v.border)
          : plane == kMagnitude
              ? magnitudeAt(blur, size, i, v.border, v.gradient)
              : edgeOf(magnitude[i], v.rounding));
    }
  }
  // All of them from rgb, of which the first 3 * pixels bytes count.
  void compute() {
    const Variant right = {};
    compute(kGrey, right, &grey);
    compute(kRows, right, &rows);
    compute(kBlur, right, &blur);
    compute(kMagnitude, right, &magnitude);
    compute(kEdges, right, &edges);
    bins = binsOf(edges.data(), size.pixels());
  }
  const void* plane(int plane) const {
    const void* const h_planes[] = {rgb.data(),  grey.data(),      rows.data(),
                                    blur.data(), magnitude.data(), edges.data(),
                                    bins.data()};
    return h_planes[plane];
  }
};

// ================================================================= the test

// The planes of one frame in device memory. Exactly as large as the image in
// the test of the stages, so that a sanitizer sees the first access past them.
struct Planes {
  DeviceBuffer<unsigned char> of[kPlanes], scratch;
  size_t scratchBytes = 0;

  Exit allocate(size_t pixels, bool all) {
    for (int plane = 0; plane < kPlanes; ++plane) {
      if (all || plane == kRgb || plane == kEdges || plane == kBinned) {
        TRY(of[plane].allocate(bytesOf(plane, pixels)));
      }
    }
    return kPass;
  }
  // Scratch that is enough for this method too.
  Exit reserveScratch(const Method& method, Size size) {
    size_t bytes = 0;
    if (method.needsScratch == nullptr) return kPass;
    CUDA_TRY(method.needsScratch(size, &bytes));
    if (bytes <= scratchBytes) return kPass;
    TRY(scratch.allocate(bytes));
    scratchBytes = bytes;
    return kPass;
  }
  FrameJob job(Size size, cudaStream_t stream) const {
    const auto floats = [this](int plane) {
      return reinterpret_cast<float*>(of[plane].get());
    };
    return {of[kRgb].get(),
            of[kGrey].get(),
            floats(kRows),
            floats(kBlur),
            floats(kMagnitude),
            of[kEdges].get(),
            reinterpret_cast<unsigned*>(of[kBinned].get()),
            scratch.get(),
            scratchBytes,
            static_cast<int>(size.rows),
            static_cast<int>(size.cols),
            stream};
  }
};

// What a launch left behind.
struct Output {
  std::vector<unsigned char> bytes;
  std::vector<float> floats;
  std::vector<unsigned> bins = std::vector<unsigned>(kBins);
};

// One frame, its references on the device, and planes to write to.
struct FrameWork {
  HostFrame want;
  Planes d_want, d_got;

  Exit prepare() {
    want.compute();
    TRY(d_want.allocate(want.size.pixels(), true));
    TRY(d_got.allocate(want.size.pixels(), true));
    for (int plane = 0; plane < kPlanes; ++plane) {
      TRY(d_want.of[plane].upload(
          static_cast<const unsigned char*>(want.plane(plane))));
    }
    return kPass;
  }
  // A stage reads the reference of what comes before it, never another stage's
  // output, so that one fault shows in one stage.
  FrameJob jobFor(const FrameStage& stage) const {
    FrameJob job = d_got.job(want.size, nullptr);
    const FrameJob from = d_want.job(want.size, nullptr);
    switch (stage.reads) {
      case kRgb:
        job.d_rgb = from.d_rgb;
        break;
      case kGrey:
        job.d_grey = from.d_grey;
        break;
      case kRows:
        job.d_rows = from.d_rows;
        break;
      case kBlur:
        job.d_blur = from.d_blur;
        break;
      case kMagnitude:
        job.d_magnitude = from.d_magnitude;
        break;
      default:
        job.d_edges = from.d_edges;
    }
    return job;
  }
  // Bytes become `byte`; floats a NaN, and bins 4294967295, whatever it is.
  Exit poison(int byte) {
    for (int plane = 0; plane < kPlanes; ++plane) {
      const bool bytes = plane == kRgb || plane == kGrey || plane == kEdges;
      TRY(d_got.of[plane].fill(bytes ? byte : 0xFF));
    }
    return kPass;
  }
  Exit fetch(const FrameStage& stage, Output* out) const {
    const auto fetchPlane = [&](int plane, auto& h_to) {
      return d_got.of[plane].download(
          reinterpret_cast<unsigned char*>(h_to.data()));
    };
    const int plane = stage.writes;
    out->bytes.resize(want.size.pixels());
    out->floats.resize(want.size.pixels());
    if (plane == kFrame) TRY(fetchPlane(kEdges, out->bytes));
    if (plane >= kBinned) return fetchPlane(kBinned, out->bins);
    return plane == kGrey || plane == kEdges ? fetchPlane(plane, out->bytes)
                                             : fetchPlane(plane, out->floats);
  }
  Exit launch(const FrameStage& stage, Launch run, int poisonByte, int times,
              Output* out) {
    TRY(poison(poisonByte));
    const FrameJob job = jobFor(stage);
    cudaError_t status = cudaSuccess;
    for (int i = 0; i < times && status == cudaSuccess; ++i) status = run(job);
    if (status == cudaSuccess) status = cudaDeviceSynchronize();
    if (status == cudaSuccess) return fetch(stage, out);
    const std::string call = "stage \"" + std::string(stage.label) + "\"";
    return reportCudaError(__FILE__, __LINE__, call.c_str(), status);
  }
};

// Compares the edges of two runs with the reference. A byte may be the other
// neighbour where the magnitude lies within kTieBand of a half; more than 0.1%
// of those, and no fewer than 3, fail.
inline Comparison compareEdges(const unsigned char* h_got,
                               const unsigned char* h_again,
                               const HostFrame& want, size_t* forgiven) {
  const size_t pixels = want.size.pixels();
  std::vector<unsigned char> h_due = want.edges;
  size_t ties = 0;
  for (size_t i = 0; i < pixels; ++i) {
    if (h_got[i] == want.edges[i] || h_got[i] != h_again[i]) continue;
    const double distance = std::fabs(want.magnitude[i] - h_got[i]);
    if (!(distance <= 0.5 + kTieBand)) continue;
    h_due[i] = h_got[i];
    ++ties;
  }
  if (ties > 2 + kForgiveShare * pixels) h_due = want.edges;
  *forgiven += ties;
  return compareBytes(h_got, h_again, h_due.data(), pixels, nullptr, 0.0f);
}

// A mistake that gives a known plane.
struct FrameSuspect {
  int from, to;  // the planes in which it shows
  const char* words;
  Variant variant;
};
inline std::vector<FrameSuspect> frameSuspects() {
  const auto bordered = [](Border border) {
    Variant v;
    v.border = border;
    return v;
  };
  const auto graded = [](Gradient gradient) {
    Variant v;
    v.gradient = gradient;
    return v;
  };
  const auto weighted = [](int red, int green, int blue, int half) {
    Variant v;
    v.red = red, v.green = green, v.blue = blue, v.half = half;
    return v;
  };
  Variant turned, truncated, wrapped;
  turned.otherAxis = true;
  truncated.rounding = Rounding::kTruncate;
  wrapped.rounding = Rounding::kWrap;
  return {
      {kGrey, kGrey, "red and blue are exchanged: BGR?",
       weighted(114, 587, 299, 500)},
      {kGrey, kGrey, "truncated, not rounded to nearest",
       weighted(299, 587, 114, 0)},
      {kGrey, kGrey, "the weights sum to 0.996: 0.297, 0.586, 0.113",
       weighted(297, 586, 113, 500)},
      {kRows, kBlur, "the blur runs along the other axis", turned},
      {kRows, kBlur,
       "weights beyond the border count twice: each such tap is clamped, and "
       "then added once more",
       bordered(Border::kDoubled)},
      {kRows, kMagnitude, "your border looks like zero outside the image",
       bordered(Border::kZero)},
      {kRows, kMagnitude, "your border looks like a mirror",
       bordered(Border::kMirror)},
      {kMagnitude, kMagnitude,
       "gradients clamped at zero: bright to dark is lost",
       graded(Gradient::kPositive)},
      {kMagnitude, kMagnitude, "gx alone: gy is missing", graded(Gradient::kX)},
      {kMagnitude, kMagnitude, "gy alone: gx is missing", graded(Gradient::kY)},
      {kMagnitude, kMagnitude, "|gx| + |gy|, not the root of the squares",
       graded(Gradient::kSum)},
      {kEdges, kEdges, "truncated, not rounded to nearest", truncated},
      {kEdges, kEdges, "not saturated: above 255 it starts again at 0",
       wrapped}};
}

// The cause, from what the plane equals and from where the errors lie.
inline std::string guessForFrame(const FrameStage& stage, const Place& at,
                                 const Comparison& found, const HostFrame& want,
                                 const Output& out) {
  if (found.unwritten != 0) return guessFromUnwritten(at, found);
  if (found.notFinite != 0) return "a value that nobody had written was read";
  const size_t pixels = want.size.pixels();
  const bool bytes = stage.writes == kGrey || stage.writes == kEdges;
  std::vector<float> h_got = out.floats, h_want, h_blamed;
  if (bytes) h_got.assign(out.bytes.begin(), out.bytes.end());
  if (stage.writes < kBinned) want.compute(stage.writes, Variant(), &h_want);
  const auto agreeing = [&](const std::vector<float>& h_a) {
    return pixels -
           compareFloats(h_a.data(), h_blamed.data(), pixels, 10 * kFrameAbs)
               .wrong;
  };
  for (const FrameSuspect& suspect : frameSuspects()) {
    if (stage.writes < suspect.from || stage.writes > suspect.to) continue;
    if (stage.reads + 1 != stage.writes) continue;
    want.compute(stage.writes, suspect.variant, &h_blamed);
    const size_t agree = agreeing(h_got);
    if (agreeing(h_want) == pixels || agree < pixels - pixels / 500) continue;
    return std::string(suspect.words) + " (" + std::to_string(agree) + " of " +
           std::to_string(pixels) + " pixels equal that)";
  }
  const std::string region = guessFromRegion(at, found);
  return region.empty() ? "the wrong pixels follow no pattern known here"
                        : region;
}

// Holds 256 bins against what they must be. Prints what is wrong.
inline bool checkBins(const std::string& where,
                      const std::vector<unsigned>& h_got,
                      const std::vector<unsigned>& h_want) {
  if (h_got == h_want) return true;
  size_t sum = 0, due = 0, wrong = 0, unwritten = 0, first = kBins, highest = 0;
  fflush(stdout);
  fprintf(stderr, "FAIL %s: the histogram is wrong\n", where.c_str());
  for (size_t bin = 0; bin < kBins; ++bin) {
    sum += h_got[bin];
    due += h_want[bin];
    if (h_want[bin] != 0) highest = bin;
    unwritten += h_got[bin] == UINT_MAX;
    if (h_got[bin] == h_want[bin]) continue;
    first = std::min(first, bin);
    if (wrong++ >= 5) continue;
    fprintf(stderr, "  bin %zu: got %u, want %u\n", bin, h_got[bin],
            h_want[bin]);
  }
  if (unwritten != 0) {
    fprintf(stderr, "  %zu of %zu bins never written\n", unwritten, kBins);
  } else {
    fprintf(stderr, "  %zu of %zu bins wrong; they sum to %zu, not %zu\n",
            wrong, kBins, sum, due);
  }
  std::string guess;
  if (unwritten == kBins) {
    guess = "nothing was written";
  } else if (first == highest + 1) {
    guess = "the number of bins comes from the largest value, " +
            std::to_string(highest);
  } else if (unwritten == 0 && first > 0 && sum < due) {
    guess = "bins from " + std::to_string(first) +
            " on are lost: merged by fewer threads than there are bins?";
  }
  if (!guess.empty()) {
    fprintf(stderr, "  a guess, no more: %s\n", guess.c_str());
  }
  return false;
}

// Holds what two runs of a stage left behind against the reference, and prints
// what is wrong.
inline Exit judgeOutputs(const FrameStage& stage, const std::string& caseName,
                         const HostFrame& want, const Output& first,
                         const Output& second, size_t* forgiven,
                         double* worst) {
  const auto [rows, cols] = want.size;
  const Place at = {stage.label, caseName, rows, cols, stage.tile, 3};
  const size_t pixels = want.size.pixels();
  Comparison found;
  if (stage.writes == kFrame || stage.writes == kEdges) {
    found =
        compareEdges(first.bytes.data(), second.bytes.data(), want, forgiven);
  } else if (stage.writes == kGrey) {
    found = compareBytes(first.bytes.data(), second.bytes.data(),
                         want.grey.data(), pixels, nullptr, 0.0f);
  } else if (stage.writes != kBinned) {
    const float* h_want = static_cast<const float*>(want.plane(stage.writes));
    found = compareFloats(first.floats.data(), h_want, pixels, kFrameAbs);
    if (found.wrong == 0) {
      found = compareFloats(second.floats.data(), h_want, pixels, kFrameAbs);
    }
    *worst = std::max(*worst, found.worst);
  }
  if (found.wrong != 0) {
    reportFailure(at, found, guessForFrame(stage, at, found, want, first));
    return kFailed;
  }
  if (stage.writes < kBinned) return kPass;
  const std::string where = std::string(stage.label) + ", case " + caseName +
                            ", " + std::to_string(rows) + " rows x " +
                            std::to_string(cols) + " cols";
  const auto due = [&](const Output& out) {
    return stage.writes == kFrame ? binsOf(out.bytes.data(), pixels)
                                  : want.bins;
  };
  return checkBins(where, first.bins, due(first)) &&
                 checkBins(where, second.bins, due(second))
             ? kPass
             : kFailed;
}

// Checks a stage: over 0x00 once, over 0xFF `again` times, against its twin.
inline Exit checkFrameStage(const FrameStage& stage, const Method& method,
                            const std::string& caseName, int again,
                            bool withTwin, FrameWork& work, size_t* forgiven,
                            double* worst) {
  Output first, second, twin;
  TRY(work.launch(stage, stage.launch, 0x00, 1, &first));
  TRY(work.launch(stage, stage.launch, 0xFF, again, &second));
  if (method.verify != nullptr) TRY(method.verify());
  TRY(judgeOutputs(stage, caseName, work.want, first, second, forgiven, worst));
  if (stage.twin == nullptr || !withTwin) return kPass;
  TRY(work.launch(stage, stage.twin, 0x00, 1, &twin));
  size_t differ = 0;
  for (size_t i = 0; i < first.bytes.size(); ++i) {
    differ += twin.bytes[i] != first.bytes[i];
  }
  if (differ == 0) return kPass;
  fflush(stdout);
  fprintf(stderr,
          "FAIL %s, case %s, %zu rows x %zu cols: %zu of %zu bytes are not bit "
          "for bit those of the separate kernels\n",
          stage.label, caseName.c_str(), work.want.size.rows,
          work.want.size.cols, differ, first.bytes.size());
  return kFailed;
}

inline std::vector<unsigned char> noise(unsigned seed, size_t count) {
  Random random(seed);
  std::vector<unsigned char> h_noise(count);
  for (unsigned char& byte : h_noise) {
    byte = static_cast<unsigned char>(random() >> 24);
  }
  return h_noise;
}
inline void fillNoise(HostFrame& frame, unsigned seed) {
  frame.rgb = noise(seed, 3 * frame.size.pixels());
}
inline void fillPrimaries(HostFrame& frame, unsigned seed) {
  fillNoise(frame, seed);
  for (unsigned char& sample : frame.rgb) sample = sample < 128 ? 0 : 255;
}
inline void fillBlack(HostFrame& frame, unsigned) {
  frame.rgb.assign(3 * frame.size.pixels(), 0);
}
inline void fillWhite(HostFrame& frame, unsigned) {
  frame.rgb.assign(3 * frame.size.pixels(), 255);
}
inline void fillFourColours(HostFrame& frame, unsigned) {
  frame.rgb = {255, 0, 0, 0, 255, 0, 0, 0, 255, 255, 255, 255};
}
// Dark, bright, bright, dark: a step and its mirror image.
inline void fillSteps(HostFrame& frame, unsigned) {
  fillBlack(frame, 0);
  for (size_t i = 0; i < frame.rgb.size(); ++i) {
    const size_t quarter = i / 3 % frame.size.cols * 4 / frame.size.cols;
    if (quarter == 1 || quarter == 2) frame.rgb[i] = 255;
  }
}
// The lesson's coasts, in colour.
inline void fillCoasts(HostFrame& frame, unsigned seed) {
  const size_t pixels = frame.size.pixels();
  std::vector<unsigned char> h_grey(pixels);
  generatePicture(frame.size.rows, frame.size.cols, seed % 100, h_grey.data());
  frame.rgb.clear();
  for (const int value : h_grey) {
    for (const int sample : {value, value * 7 / 8, 255 - value / 2}) {
      frame.rgb.push_back(static_cast<unsigned char>(sample));
    }
  }
}

// Demands on the reference itself, from the text above. "" or what is wrong.
inline std::string judgeFourColours(const HostFrame& frame) {
  const int grey[] = {76, 150, 29, 255}, edges[] = {211, 220, 255, 255};
  const double blur[] = {98.5103, 145.2453, 98.3287, 167.9157};
  const double magnitude[] = {210.9555, 220.4848, 256.4523, 264.3466};
  for (int i = 0; i < 4; ++i) {
    if (frame.grey[i] != grey[i] || frame.edges[i] != edges[i] ||
        !(std::fabs(frame.blur[i] - blur[i]) <= kFrameAbs) ||
        !(std::fabs(frame.magnitude[i] - magnitude[i]) <= kFrameAbs)) {
      return "pixel " + std::to_string(i) + " is not as stated";
    }
  }
  return frame.bins[255] == 2 ? "" : "bin 255 is not 2";
}
inline std::string judgeFlat(const HostFrame& frame) {
  if (frame.bins[0] != frame.size.pixels()) return "flat, but it has edges";
  return frame.grey[0] == frame.rgb[0] ? "" : "black or white changed";
}
inline std::string judgeSteps(const HostFrame& frame) {
  const size_t cols = frame.size.cols;
  for (size_t col = 0; col < cols; ++col) {
    if (frame.edges[col] != frame.edges[cols - 1 - col]) {
      return "a step and its mirror image differ";
    }
  }
  return frame.edges[cols / 4] == 255 ? "" : "a step does not saturate";
}

struct FrameCase {
  const char* name;
  std::vector<Size> sizes;
  void (*fill)(HostFrame&, unsigned seed);
  std::string (*judge)(const HostFrame&);
};

// Sizes smaller than any filter, and around tiles: 32 x 8 of the separate
// kernels, 120 or 26 columns of the fused one, which has a way of its own for
// widths that 4 divides.
inline std::vector<FrameCase> frameCases(Size full) {
  return {
      {"odd", {{307, 613}}, fillNoise, nullptr},
      {"colours", {{2, 2}}, fillFourColours, judgeFourColours},
      {"black", {{2, 2}, {37, 52}}, fillBlack, judgeFlat},
      {"white", {{1, 1}, {37, 52}}, fillWhite, judgeFlat},
      {"steps", {{24, 64}}, fillSteps, judgeSteps},
      {"small",
       {{1, 1},    {1, 4},    {4, 1},    {1, 7},    {7, 1},    {3, 5},
        {5, 3},    {2, 8},    {1, 640},  {640, 1},  {7, 31},   {9, 33},
        {31, 33},  {33, 31},  {15, 119}, {16, 120}, {17, 121}, {17, 124},
        {33, 116}, {65, 128}, {49, 244}, {31, 78},  {34, 79},  {18, 488}},
       fillNoise,
       nullptr},
      {"primaries", {{67, 45}, {45, 68}}, fillPrimaries, nullptr},
      {"full", {full}, fillCoasts, nullptr},
  };
}

// ================================================================ the streams

// Pinned host memory: the only kind that the copy engines read and write while
// the program goes on.
template <class T>
class PinnedBuffer {
 public:
  PinnedBuffer() = default;
  PinnedBuffer(const PinnedBuffer&) = delete;
  PinnedBuffer& operator=(const PinnedBuffer&) = delete;
  ~PinnedBuffer() { cudaFreeHost(h_data_); }
  Exit allocate(size_t count) {
    CUDA_TRY(cudaFreeHost(h_data_));
    h_data_ = nullptr;
    CUDA_TRY(cudaMallocHost(&h_data_, count * sizeof(T)));
    return kPass;
  }
  T* get() const { return h_data_; }

 private:
  T* h_data_ = nullptr;
};

// One of the buffers that frames travel through: pinned memory at this end,
// device memory at the other. It may be used again once `done` has happened.
struct Slot {
  size_t frame = 0;
  Size size = {0, 0};
  bool skipped = false;  // holds nothing that anybody wants
  PinnedBuffer<unsigned char> h_rgb, h_edges;
  PinnedBuffer<unsigned> h_bins;
  Planes planes;
  // In the stream: before the copy in, after it, after the kernels, and after
  // the copies out. The first three only draw the timeline.
  Event begun, uploaded, computed, done;
  size_t capacity = 0;  // pixels

  FrameJob job(cudaStream_t stream) const { return planes.job(size, stream); }
  // Makes room. Only for a slot that nothing is using.
  Exit reserve(const Method& method, Size most) {
    const size_t pixels = most.pixels();
    if (pixels <= capacity) return kPass;
    capacity = 0;
    TRY(h_rgb.allocate(3 * pixels));
    TRY(h_edges.allocate(pixels));
    TRY(h_bins.allocate(kBins));
    TRY(planes.allocate(pixels, method.needsPlanes));
    TRY(planes.reserveScratch(method, most));
    TRY(planes.of[kRgb].fill(0xFF));
    capacity = pixels;
    return kPass;
  }
};

// Where frames come from and go to. `fill` puts a frame into a slot's h_rgb
// and sets its size, `take` checks or stores what came back in h_edges and
// h_bins; both run on the host and may fail. `compute` launches the kernels.
struct FrameSource {
  size_t frames;
  std::function<Exit(size_t frame, Slot&)> fill, take;
  Launch compute;
};

using StreamFunction = Exit (*)(FrameSource&, std::vector<Slot>&,
                                const std::vector<cudaStream_t>&);

// When a frame passed its slot's events, in ms.
struct FrameTimes {
  size_t frame;
  double begun, uploaded, computed, done;
};

// What a slot's edges hold when it is sent, so that what comes back must have
// been written for this very frame.
inline unsigned char poisonOf(size_t frame) {
  return frame % 2 ? 0xFF : 0x00;
}
inline void poisonSlot(Slot& slot) {
  memset(slot.h_edges.get(), poisonOf(slot.frame), slot.size.pixels());
}

// The slots, two streams, and the times of the frames that have come back.
struct Conveyor {
  std::vector<Slot> slots;
  std::vector<cudaStream_t> streams;
  Event started;
  bool record = false;  // whether to keep times
  std::vector<FrameTimes> times;

  explicit Conveyor(size_t buffers) : slots(buffers) {}
  Conveyor(const Conveyor&) = delete;
  Conveyor& operator=(const Conveyor&) = delete;
  ~Conveyor() {
    cudaDeviceSynchronize();
    for (cudaStream_t stream : streams) cudaStreamDestroy(stream);
  }
  // Runs `stream` on the source, and counts what comes back.
  Exit run(StreamFunction stream, const FrameSource& source) {
    while (streams.size() < 2) {
      streams.push_back(nullptr);
      CUDA_TRY(cudaStreamCreate(&streams.back()));
    }
    size_t taken = 0;
    times.clear();
    TRY(started.record());
    CUDA_TRY(cudaDeviceSynchronize());
    FrameSource watched = source;
    watched.fill = [&](size_t frame, Slot& slot) {
      slot.frame = frame;
      slot.skipped = false;
      TRY(source.fill(frame, slot));
      memset(slot.h_bins.get(), 0xFF, kBins * sizeof(unsigned));
      return kPass;
    };
    watched.take = [&](size_t frame, Slot& slot) {
      ++taken;
      FrameTimes t = {frame, 0.0, 0.0, 0.0, 0.0};
      if (record && slot.begun.get() && slot.uploaded.get() &&
          slot.computed.get()) {
        TRY(slot.begun.since(started, &t.begun));
        TRY(slot.uploaded.since(started, &t.uploaded));
        TRY(slot.computed.since(started, &t.computed));
        TRY(slot.done.since(started, &t.done));
        times.push_back(t);
      }
      return source.take(frame, slot);
    };
    TRY(stream(watched, slots, streams));
    CUDA_TRY(cudaDeviceSynchronize());
    if (taken == source.frames) return kPass;
    fflush(stdout);
    fprintf(stderr, "FAIL streams: %zu of %zu frames came back\n", taken,
            source.frames);
    return kFailed;
  }
};

// Whether the copies of a slot can overlap anything.
inline Exit isPinned(const Slot& slot, bool* pinned) {
  const void* const h_memory[] = {slot.h_rgb.get(), slot.h_edges.get(),
                                  slot.h_bins.get()};
  *pinned = true;
  for (const void* h_part : h_memory) {
    cudaPointerAttributes attributes;
    CUDA_TRY(cudaPointerGetAttributes(&attributes, h_part));
    *pinned = *pinned && attributes.type == cudaMemoryTypeHost;
  }
  return kPass;
}

// The streams' test: many small frames, each with a size and content of its
// own, so that one frame's edges are nobody else's.
constexpr Size kTestFrame = {48, 64};  // the largest
inline void makeTestFrame(unsigned seed, size_t frame, HostFrame* made) {
  seed += 7919 * static_cast<unsigned>(frame);
  made->rgb = noise(seed, 3 * kTestFrame.pixels());
  Random random(~seed);
  made->size = {1 + random() % kTestFrame.rows, 1 + random() % kTestFrame.cols};
}

// Whose edges a slot brought back instead of its own.
inline std::string guessForStream(const Slot& slot, const HostFrame& want,
                                  size_t frame, unsigned seed, size_t frames,
                                  size_t buffers) {
  const unsigned char* h_got = slot.h_edges.get();
  const size_t pixels = want.size.pixels();
  const auto came = [&](HostFrame& other) {
    other.size = want.size;
    other.compute();
    return memcmp(other.edges.data(), h_got, pixels) == 0;
  };
  if (slot.h_bins.get()[0] == UINT_MAX) {
    return "taken before it came back: is it this slot's own event that is "
           "waited for?";
  }
  HostFrame other;
  for (size_t by = 1; by <= buffers + 1; ++by) {
    makeTestFrame(seed, frame + by, &other);
    if (frame + by < frames && came(other)) {
      return "these are the edges of frame " + std::to_string(frame + by) +
             ": was the pinned memory filled again before its copy was done?";
    }
    makeTestFrame(seed, frame - by, &other);
    if (frame >= by && came(other)) {
      return "these are the edges of frame " + std::to_string(frame - by) +
             ": was this frame never uploaded?";
    }
  }
  other.rgb.assign(3 * pixels, 0xFF);
  return came(other) ? "these are the edges of memory that nobody wrote: was "
                       "this frame never uploaded?"
                     : "two frames at once in one buffer?";
}

// What came back of a frame, against its reference: edges, then bins.
inline Exit judgeFrame(const std::string& where, const HostFrame& want,
                       const Slot& slot, size_t* forgiven,
                       const std::function<std::string()>& guess) {
  const unsigned char* h_got = slot.h_edges.get();
  const unsigned* h_bins = slot.h_bins.get();
  const Comparison found = compareEdges(h_got, h_got, want, forgiven);
  if (found.wrong != 0) {
    reportFailure(
        {"streams", where, want.size.rows, want.size.cols, kNoTile, 3}, found,
        guess());
    return kFailed;
  }
  return checkBins("streams, " + where, {h_bins, h_bins + kBins},
                   binsOf(h_got, want.size.pixels()))
             ? kPass
             : kFailed;
}

inline Exit checkStreams(StreamFunction stream, const Method& method,
                         size_t frames, size_t buffers, unsigned seed) {
  Conveyor conveyor(buffers);
  for (Slot& slot : conveyor.slots) {
    TRY(slot.reserve(method, kTestFrame));
  }
  size_t forgiven = 0, pixels = 0;
  HostFrame sent, want;
  FrameSource source = {frames, {}, {}, method.stages.back().launch};
  source.fill = [&](size_t frame, Slot& slot) {
    makeTestFrame(seed, frame, &sent);
    memcpy(slot.h_rgb.get(), sent.rgb.data(), sent.rgb.size());
    slot.size = sent.size;
    poisonSlot(slot);
    return kPass;
  };
  source.take = [&](size_t frame, Slot& slot) {
    const std::string where =
        std::to_string(buffers) + " buffers, frame " + std::to_string(frame);
    progress("streams, " + where);
    makeTestFrame(seed, frame, &want);
    want.compute();
    pixels += want.size.pixels();
    return judgeFrame(where, want, slot, &forgiven, [&] {
      return guessForStream(slot, want, frame, seed, frames, buffers);
    });
  };
  const Exit exit = conveyor.run(stream, source);
  progress("");
  if (exit == kNoGpu) return exit;
  printf(
      "streams, %s, buffers %zu: %zu frames of up to %zu x %zu, %zu pixels, "
      "%zu forgiven: %s\n",
      method.name, buffers, frames, kTestFrame.rows, kTestFrame.cols, pixels,
      forgiven, exit == kPass ? "pass" : "FAIL");
  fflush(stdout);
  return exit;
}

// Work for a stream that goes on until it is released, or for two seconds.
struct Hold {
  std::atomic<bool> released{false}, over{false};
  static void CUDART_CB run(void* self) {
    Hold& hold = *static_cast<Hold*>(self);
    const auto start = std::chrono::steady_clock::now();
    while (!hold.released && hostMs(start) < 2000.0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    hold.over = true;
  }
};

// Sends one frame through the first stream while the second is held up. It
// comes back all the same, unless something in it waits for both.
inline Exit checkIndependence(StreamFunction stream, const Method& method,
                              bool* independent) {
  Hold hold;  // outlives the streams
  Conveyor conveyor(1);
  TRY(conveyor.slots[0].reserve(method, kTestFrame));
  FrameSource source = {1, {}, {}, method.stages.back().launch};
  source.fill = [&](size_t, Slot& slot) {
    slot.size = kTestFrame;
    memset(slot.h_rgb.get(), 0, 3 * slot.size.pixels());
    CUDA_TRY(cudaLaunchHostFunc(conveyor.streams[1], Hold::run, &hold));
    return kPass;
  };
  source.take = [&](size_t, Slot&) {
    *independent = !hold.over;
    hold.released = true;
    return kPass;
  };
  TRY(conveyor.run(stream, source));
  printf("streams, %s: a frame %s for its own stream alone\n", method.name,
         *independent ? "waits" : "does not wait");
  return kPass;
}

// =========================================================== the report card

struct FrameOptions {
  bool help = false, version = false, timing = true, strict = false;
  bool seeded = false;
  size_t seed = 0;
  Size size = {1080, 1920};
  size_t frames = 1000, buffers = 2;
  std::string in, out, timeline;
};

// What a program of this family brings.
struct FramesProgram {
  std::string title;
  std::vector<const char*> sources;  // __FILE__ of each
  std::vector<Method> methods;
  StreamFunction stream;
};

// What is slow and not wrong. Under --strict it fails the run all the same.
struct Notes {
  size_t count = 0;
  void add(const std::string& text) {
    ++count;
    printf("note: %s\n", text.c_str());
  }
};

constexpr const char* kFrameCopyRow = "copy, cudaMemcpyAsync";
constexpr const char* kLaunchRow = "a launch, for one pixel";

// The one that has a twin.
inline const FrameStage& fusedStage(const Method& method) {
  return *std::find_if(method.stages.begin(), method.stages.end(),
                       [](const auto& s) { return s.twin != nullptr; });
}

// Times every stage on the frame in `work`, the histograms on two images more,
// and the CPU.
inline Exit timeFrames(const FramesProgram& program, FrameWork& work,
                       std::vector<Row>* rows) {
  const Size size = work.want.size;
  const size_t pixels = size.pixels();
  const struct {
    const char* name;
    std::vector<unsigned char> h_bytes;
  } images[] = {{", noise", noise(7, pixels)},
                {", one value", std::vector<unsigned char>(pixels, 0)}};
  DeviceBuffer<unsigned char> d_images[2];
  for (int i = 0; i < 2; ++i) {
    TRY(d_images[i].allocate(pixels));
    TRY(d_images[i].upload(images[i].h_bytes.data()));
  }
  cudaError_t status = cudaSuccess;  // the first that was not a success
  const auto keep = [&status](cudaError_t mine) {
    if (status == cudaSuccess) status = mine;
  };
  const auto nothing = [] { return kPass; };
  const auto poison = [&work] { return work.poison(0x55); };
  const FrameJob from = work.d_want.job(size, nullptr);
  const FrameJob to = work.d_got.job(size, nullptr);
  const FrameJob onePixel = work.d_got.job({1, 1}, nullptr);
  const FrameStage* const tiny = &fusedStage(program.methods[0]);
  std::vector<Timed> all = {
      {kCopyRow, 8 * pixels,
       [=] {
         launchCopy({from.d_blur, to.d_blur, nullptr, nullptr, size.rows,
                     size.cols, 0.0f});
       },
       nothing, nothing},
      {kFrameCopyRow, 4 * pixels,
       [=] {
         keep(cudaMemcpyAsync(to.d_blur, from.d_blur, 2 * pixels,
                              cudaMemcpyDeviceToDevice));
       },
       nothing, nothing},
      {kLaunchRow, 0, [=] { keep(tiny->launch(onePixel)); }, nothing, nothing}};
  for (const Method& method : program.methods) {
    for (const FrameStage& stage : method.stages) {
      FrameJob job = work.jobFor(stage);
      const auto run = [keep, &stage](const FrameJob& job) {
        keep(stage.launch(job));
      };
      const auto judge = [&work, &status, &stage](const HostFrame& want) {
        CUDA_TRY(status);
        Output out;
        size_t forgiven = 0;
        double worst = 0.0;
        TRY(work.fetch(stage, &out));
        return judgeOutputs(stage, "after the timed loop", want, out, out,
                            &forgiven, &worst);
      };
      all.push_back({stage.label, stage.bytesPerPixel * pixels,
                     [run, job] { run(job); }, poison,
                     [&work, judge] { return judge(work.want); }});
      if (stage.writes != kBinned) continue;
      for (int i = 0; i < 2; ++i) {
        job.d_edges = d_images[i].get();
        HostFrame other;
        other.size = size;
        other.bins = binsOf(images[i].h_bytes.data(), pixels);
        all.push_back({std::string(stage.label) + images[i].name, pixels,
                       [run, job] { run(job); }, poison,
                       [judge, other] { return judge(other); }});
      }
    }
  }
  TRY(timeInRounds(all, rows));
  progress("timing the CPU reference");
  const auto start = std::chrono::steady_clock::now();
  work.want.compute();
  rows->push_back({"CPU, one thread, whole frame", 0, hostMs(start), -1.0});
  progress("");
  return kPass;
}

// The lines of code of a method: not blank, not only a comment, between its
// marks in its source. 0 where the source is gone.
inline int linesOfCode(const Method& method) {
  std::ifstream file(method.source);
  int lines = 0;
  bool counting = false;
  for (std::string line; std::getline(file, line);) {
    const size_t at = line.find_first_not_of(" \t\r");
    if (at == std::string::npos) continue;
    if (line.compare(at, 2, "//") != 0) {
      lines += counting;
    } else if (line.find("lines count from here") != std::string::npos) {
      counting = true;
    } else if (line.find("end of count") != std::string::npos) {
      counting = false;
    }
  }
  return lines;
}

// What the fused kernel reaches, and what a launch takes of its time.
inline void reportFused(const std::string& label,
                        const std::vector<Row>& rows) {
  const double ms = findRow(rows, label)->ms;
  const double launch = findRow(rows, kLaunchRow)->ms;
  printf("%s: %.3f of the speed of %s, which moves as many bytes\n",
         label.c_str(), findRow(rows, kFrameCopyRow)->ms / ms, kFrameCopyRow);
  if (launch > ms / 4) {
    printf(
        "%s: of its %.4f ms a launch alone takes %.4f. That binds here, in "
        "every row; --size 4096x4096 shows what the kernels do\n",
        label.c_str(), ms, launch);
  }
}

// What each method saves in lines and costs in time, from the rows of this run.
inline void compareMethods(const FramesProgram& program,
                           const std::vector<Row>& rows, Notes* notes) {
  const Method& hand = program.methods[0];
  const Row* chain = findRow(rows, hand.chain().label);
  for (const Method& method : program.methods) {
    const Row* row = findRow(rows, method.chain().label);
    printf("code, %s: %d lines; a frame, stage by stage: %.4f ms, %.2f x %s\n",
           method.name, linesOfCode(method), row->ms, row->ms / chain->ms,
           hand.name);
    for (const FrameStage& stage : method.stages) {
      const Row* fused = findRow(rows, stage.label);
      if (stage.twin != nullptr) {
        printf("%s: %.2f x as fast as %s, which moves %.2f x the bytes\n",
               stage.label, chain->ms / fused->ms, hand.chain().label,
               static_cast<double>(chain->bytes) / fused->bytes);
        reportFused(stage.label, rows);
      }
      if (stage.writes != kBinned || &method == &hand) continue;
      for (const char* image : {"", ", noise", ", one value"}) {
        const std::string mine = std::string("histogram") + image;
        const double ratio =
            findRow(rows, mine)->ms /
            findRow(rows, stage.label + std::string(image))->ms;
        printf("%s: %.3f of the time of %s%s\n", mine.c_str(), ratio,
               stage.label, ratio <= 1.0 ? "" : ", slower");
        if (ratio > 1.0) notes->add(mine + " is slower than " + stage.label);
      }
    }
  }
}

constexpr size_t kTimedFrames = 200;

// The frames that are timed: one picture, with a patch that is new in each, so
// that no two are alike and yet filling a slot takes no time that shows. What
// came back of the patch is kept, and checked when the clock has stopped.
class PatchedFrames {
 public:
  PatchedFrames(const HostFrame& base, unsigned seed)
      : base_(base),
        seed_(seed),
        patch_{std::min(base.size.rows, kSide),
               std::min(base.size.cols, kSide)},
        kept_(kTimedFrames, std::vector<unsigned char>(patch_.pixels())),
        sums_(kTimedFrames) {}

  FrameSource source(Launch compute) {
    return {kTimedFrames,
            [this](size_t frame, Slot& slot) {
              const std::vector<unsigned char> h_patch = patchOf(frame);
              for (size_t row = 0; row < patch_.rows; ++row) {
                memcpy(slot.h_rgb.get() + 3 * at(row),
                       &h_patch[3 * row * patch_.cols], 3 * patch_.cols);
                memset(slot.h_edges.get() + at(row), poisonOf(frame),
                       patch_.cols);
              }
              return kPass;
            },
            [this](size_t frame, Slot& slot) {
              for (size_t row = 0; row < patch_.rows; ++row) {
                memcpy(&kept_[frame][row * patch_.cols],
                       slot.h_edges.get() + at(row), patch_.cols);
              }
              const unsigned* h_bins = slot.h_bins.get();
              sums_[frame] = std::accumulate(h_bins, h_bins + kBins, size_t{0});
              return kPass;
            },
            compute};
  }
  // Puts the picture into a slot, before the clock starts.
  Exit prime(Slot& slot, const Method& method) const {
    TRY(slot.reserve(method, base_.size));
    memcpy(slot.h_rgb.get(), base_.rgb.data(), base_.rgb.size());
    slot.size = base_.size;
    return kPass;
  }
  // Every patch, but for the 3 pixels along its sides, which depend on what is
  // around it too.
  Exit check(const char* name) const {
    HostFrame want;
    want.size = patch_;
    for (size_t frame = 0; frame < kTimedFrames; ++frame) {
      bool right = sums_[frame] == base_.size.pixels();
      want.rgb = patchOf(frame);
      want.compute();
      for (size_t row = 3; row + 3 < patch_.rows; ++row) {
        for (size_t col = 3; col + 3 < patch_.cols; ++col) {
          const size_t i = row * patch_.cols + col;
          const double value = std::min(want.magnitude[i], 255.0f);
          right = right && std::fabs(value - kept_[frame][i]) <= 0.5 + kTieBand;
        }
      }
      if (right) continue;
      fflush(stdout);
      fprintf(stderr,
              "FAIL streams, %s, timed frame %zu: its edges or bins are not "
              "its own: is a buffer used again too early?\n",
              name, frame);
      return kFailed;
    }
    return kPass;
  }

 private:
  static constexpr size_t kSide = 38;
  size_t at(size_t row) const {  // of the patch, as a pixel of the picture
    return ((base_.size.rows - patch_.rows) / 2 + row) * base_.size.cols +
           (base_.size.cols - patch_.cols) / 2;
  }
  std::vector<unsigned char> patchOf(size_t frame) const {
    return noise(seed_ + 7919 * static_cast<unsigned>(frame),
                 3 * patch_.pixels());
  }
  const HostFrame& base_;
  unsigned seed_;
  Size patch_;
  std::vector<std::vector<unsigned char>> kept_;
  std::vector<size_t> sums_;
};

// Frames a second, medians of kRounds: one buffer, several, the bus alone (in
// and out at once), the kernels alone.
struct Throughput {
  double serial, streamed, transfer, compute;
};

inline Exit measureThroughput(const FramesProgram& program,
                              const Method& method, const FrameOptions& options,
                              const HostFrame& base, Throughput* rates,
                              std::vector<FrameTimes>* times, bool* pinned) {
  Conveyor serial(1), streamed(options.buffers);
  PatchedFrames frames(base, static_cast<unsigned>(options.seed));
  const FrameSource source = frames.source(method.stages.back().launch);
  for (Conveyor* conveyor : {&serial, &streamed}) {
    for (Slot& slot : conveyor->slots) {
      TRY(frames.prime(slot, method));
    }
  }
  const Slot &first = streamed.slots.front(), &last = streamed.slots.back();
  TRY(isPinned(first, pinned));
  const auto transfer = [&] {
    for (size_t frame = 0; frame < kTimedFrames; ++frame) {
      CUDA_TRY(cudaMemcpyAsync(first.job(nullptr).d_rgb, first.h_rgb.get(),
                               base.rgb.size(), cudaMemcpyHostToDevice,
                               streamed.streams[0]));
      CUDA_TRY(cudaMemcpyAsync(last.h_edges.get(), last.job(nullptr).d_edges,
                               base.edges.size(), cudaMemcpyDeviceToHost,
                               streamed.streams[1]));
    }
    return kPass;
  };
  const auto compute = [&] {
    for (size_t frame = 0; frame < kTimedFrames; ++frame) {
      CUDA_TRY(source.compute(first.job(streamed.streams[0])));
    }
    return kPass;
  };
  const std::function<Exit()> works[] = {
      [&] { return serial.run(program.stream, source); },
      [&] { return streamed.run(program.stream, source); }, transfer, compute};
  std::vector<double> samples[4];
  for (int round = 0; round <= kRounds; ++round) {  // the first warms up
    progress(std::string("streams, ") + method.name + ": round " +
             std::to_string(round) + " of " + std::to_string(kRounds));
    streamed.record = round == kRounds;
    for (int i = 0; i < 4; ++i) {
      const auto start = std::chrono::steady_clock::now();
      TRY(works[i]());
      CUDA_TRY(cudaGetLastError());
      CUDA_TRY(cudaDeviceSynchronize());
      const double ms = hostMs(start);
      if (round > 0) samples[i].push_back(1000.0 * kTimedFrames / ms);
      if (i < 2) TRY(frames.check(method.name));
    }
  }
  progress("");
  for (std::vector<double>& sample : samples) {
    std::sort(sample.begin(), sample.end());
  }
  const size_t middle = kRounds / 2;
  *rates = {samples[0][middle], samples[1][middle], samples[2][middle],
            samples[3][middle]};
  *times = streamed.times;
  return kPass;
}

// When the copy in of times[i] had the bus to itself: it may have been asked
// for while the one before was still on its way.
inline double copyBegan(const std::vector<FrameTimes>& times, size_t i) {
  return i == 0 ? times[i].begun
                : std::max(times[i].begun, times[i - 1].uploaded);
}

// How much of a step's time, from one event to another, lies under the next
// frame's copy in. In %.
inline double overlapOf(const std::vector<FrameTimes>& times,
                        double FrameTimes::*begin, double FrameTimes::*end) {
  double hidden = 0.0, all = 0.0;
  for (size_t i = 0; i + 1 < times.size(); ++i) {
    const double from = std::max(times[i].*begin, copyBegan(times, i + 1));
    const double to = std::min(times[i].*end, times[i + 1].uploaded);
    hidden += std::max(0.0, to - from);
    all += times[i].*end - times[i].*begin;
  }
  return 100.0 * hidden / all;
}
inline double kernelOverlap(const std::vector<FrameTimes>& times) {
  return overlapOf(times, &FrameTimes::uploaded, &FrameTimes::computed);
}
inline double copyOverlap(const std::vector<FrameTimes>& times) {
  return overlapOf(times, &FrameTimes::computed, &FrameTimes::done);
}

// Writes when each frame was copied in, computed and copied out: eight frames
// as bars, then all as numbers.
inline Exit writeTimeline(const std::string& path, const std::string& title,
                          const std::vector<FrameTimes>& times) {
  FILE* file = fopen(path.c_str(), "w");
  if (file == nullptr) {
    fprintf(stderr, "%s: cannot be written: %s\n", path.c_str(),
            errnoText(errno).c_str());
    return kUsage;
  }
  constexpr int kWidth = 100;
  const size_t first = times.size() / 2;
  const size_t end = std::min(first + 8, times.size());
  std::string lanes[3];
  for (std::string& lane : lanes) lane.assign(kWidth, ' ');
  double from = 0.0, to = 0.0;
  if (first < end) {
    from = copyBegan(times, first);
    to = times[end - 1].done;
  }
  for (size_t i = first; i < end; ++i) {
    const FrameTimes& t = times[i];
    const double marks[] = {copyBegan(times, i), t.uploaded, t.computed,
                            t.done};
    const auto column = [&](int mark) {
      return static_cast<int>(kWidth * (marks[mark] - from) / (to - from));
    };
    for (int lane = 0; lane < 3; ++lane) {
      for (int x = column(lane); x < kWidth; ++x) {
        if (x > column(lane) && x >= column(lane + 1)) break;
        lanes[lane][x] = static_cast<char>('0' + t.frame % 10);
      }
    }
  }
  fprintf(file,
          "%s\nframes %zu to %zu, each as its last digit, %.3f ms across\n"
          "copy in  |%s|\nkernels  |%s|\ncopy out |%s|\n"
          "under the next frame's copy in: %.1f%% of the kernels' time, "
          "%.1f%% of the copies' out\n\n%6s %10s %10s %10s %10s\n",
          title.c_str(), first, end - 1, to - from, lanes[0].c_str(),
          lanes[1].c_str(), lanes[2].c_str(), kernelOverlap(times),
          copyOverlap(times), "frame", "in, ms", "kernels", "out", "done");
  for (size_t i = 0; i < times.size(); ++i) {
    fprintf(file, "%6zu %10.4f %10.4f %10.4f %10.4f\n", times[i].frame,
            copyBegan(times, i), times[i].uploaded, times[i].computed,
            times[i].done);
  }
  fclose(file);
  return kPass;
}

// The lines on one method's streams: rates, limit, overlap, and what is amiss.
inline Exit reportStreams(const FramesProgram& program, const Method& method,
                          const FrameOptions& options, const HostFrame& base,
                          Notes* notes) {
  Throughput rates;
  std::vector<FrameTimes> times;
  bool pinned = true;
  TRY(measureThroughput(program, method, options, base, &rates, &times,
                        &pinned));
  const double limit = std::min(rates.transfer, rates.compute);
  const double share = rates.streamed / limit;
  const bool bus = rates.transfer < rates.compute;
  const double gain = rates.streamed / rates.serial;
  printf(
      "frames/s, %s: serial %.1f, streamed %.1f (%zu buffers), bus alone "
      "%.1f (%.2f GB/s in and out), kernels alone %.1f\n",
      method.name, rates.serial, rates.streamed, options.buffers,
      rates.transfer, rates.transfer * 4 * base.size.pixels() / 1e9,
      rates.compute);
  printf("streams, %s: %.2f x serial, %.3f of the limit, which is the %s: %s\n",
         method.name, gain, share, bus ? "bus" : "kernels",
         share >= 0.90 ? "0.90 or more" : "below 0.90");
  if (!times.empty()) {
    printf(
        "overlap, %s: under the next frame's copy in lie %.1f%% of the "
        "kernels' time, %.1f%% of the copies' out\n",
        method.name, kernelOverlap(times), copyOverlap(times));
  }
  if (gain < 1.05 && limit > 1.15 * rates.serial) {
    notes->add(std::string("streamed is no faster than serial. The likely "
                           "cause: ") +
               (pinned ? "a wait for the frame that was just sent, copies on "
                         "the default stream, or a call that waits for the GPU"
                       : "pageable memory"));
  } else if (share < 0.90) {
    notes->add("streamed reaches less than 0.90 of the limit");
  } else if (bus && !times.empty() && kernelOverlap(times) < 50.0) {
    notes->add(
        "kernels hold up the next frame's copy in. The likely cause: a "
        "launch on the default stream");
  }
  if (options.timeline.empty() || &method != &program.methods[0]) return kPass;
  return writeTimeline(options.timeline,
                       program.title + ", " + std::to_string(options.buffers) +
                           " buffers, " + std::to_string(base.size.rows) +
                           " rows x " + std::to_string(base.size.cols) +
                           " cols",
                       times);
}

// The whole report card.
inline Exit reportCard(const FramesProgram& program,
                       const FrameOptions& options, FrameWork& work,
                       Notes* notes) {
  std::vector<Row> rows;
  TRY(timeFrames(program, work, &rows));
  printf("a frame: %zu rows x %zu cols\n", options.size.rows,
         options.size.cols);
  printTable(rows);
  compareMethods(program, rows, notes);
  for (const Method& method : program.methods) {
    TRY(reportStreams(program, method, options, work.want, notes));
  }
  return kPass;
}

// ========================================================== a folder of files

// 8-bit RGB of a Netpbm image: samples scaled to 255, rounded to nearest.
inline void rgbOf(const Netpbm& file, unsigned char* h_rgb) {
  const bool wide = file.bytesPerSample() == 2;
  for (size_t i = 0; i < 3 * file.rows * file.cols; ++i) {
    const size_t at = file.channels == 3 ? i : i / 3;
    const unsigned sample =
        wide ? file.raster[2 * at] << 8 | file.raster[2 * at + 1]
             : file.raster[at];
    h_rgb[i] = static_cast<unsigned char>((sample * 255 + file.maxval / 2) /
                                          file.maxval);
  }
}

// The PPM and PGM files in a folder, by name, and a folder for their edges.
// "" or what is wrong.
inline std::string findFiles(const FrameOptions& options,
                             std::vector<std::filesystem::path>* files) {
  namespace fs = std::filesystem;
  std::error_code error;
  for (fs::directory_iterator at(options.in, error), end; !error && at != end;
       at.increment(error)) {
    std::string ending = at->path().extension().string();
    for (char& c : ending) c = static_cast<char>(c | 32);
    if (ending == ".ppm" || ending == ".pgm" || ending == ".pnm") {
      files->push_back(at->path());
    }
  }
  if (error) return options.in + ": " + error.message();
  if (files->empty()) return options.in + ": no .ppm, .pgm or .pnm file in it";
  std::sort(files->begin(), files->end());
  fs::create_directories(options.out, error);
  if (error) return options.out + ": " + error.message();
  if (fs::equivalent(options.in, options.out, error)) {
    return options.out + ": --out must be another folder than --in";
  }
  return "";
}

// The edges of every file in a folder: streamed, checked, written. A bad file
// is reported and left out; the exit code is then kFailed.
inline Exit runFolder(const FramesProgram& program,
                      const FrameOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  std::vector<std::filesystem::path> files;
  const std::string error = findFiles(options, &files);
  if (!error.empty()) {
    fprintf(stderr, "%s\n", error.c_str());
    return kUsage;
  }
  const Method& method = program.methods[0];
  Conveyor conveyor(options.buffers);
  std::vector<std::string> names;  // of outputs
  size_t bad = 0, written = 0, forgiven = 0;
  const auto refuse = [&](const std::string& name, const std::string& why) {
    progress("");
    fflush(stdout);
    fprintf(stderr, "%s: %s: skipped\n", name.c_str(), why.c_str());
    ++bad;
  };
  const auto outputOf = [&](size_t frame) {
    const std::string name = files[frame].stem().string() + "_edges.pgm";
    return (std::filesystem::path(options.out) / name).string();
  };
  // Reads a file into a slot. "" or why it can't be.
  const auto load = [&](size_t frame, Slot& slot) -> std::string {
    Netpbm file;
    std::string note, why = readNetpbm(files[frame].string(), file, note);
    if (!why.empty()) return why;
    const size_t pixels = file.rows * file.cols, mib = 4 * pixels >> 20;
    size_t free = 0, total = 0;
    if (file.rows > kMostSide || file.cols > kMostSide ||
        (pixels > slot.capacity && cudaMemGetInfo(&free, &total) == 0 &&
         mib > free >> 20)) {
      return std::to_string(file.rows) + " rows x " +
             std::to_string(file.cols) + " cols are too many: each may be " +
             std::to_string(kMostSide) + ", and " + std::to_string(mib) +
             " MiB of device memory are needed";
    }
    const std::string output = outputOf(frame);
    if (std::find(names.begin(), names.end(), output) != names.end()) {
      return "its edges would overwrite " + output;
    }
    names.push_back(output);
    slot.size = {file.rows, file.cols};
    if (slot.reserve(method, slot.size) != kPass) return "no memory";
    rgbOf(file, slot.h_rgb.get());
    poisonSlot(slot);
    return "";
  };
  FrameSource source = {files.size(), {}, {}, method.stages.back().launch};
  source.fill = [&](size_t frame, Slot& slot) {
    const std::string name = files[frame].string();
    progress("frame " + std::to_string(frame + 1) + " of " +
             std::to_string(files.size()) + ": " + name);
    const std::string why = load(frame, slot);
    if (why.empty()) return kPass;
    refuse(name, why);
    // One pixel travels in its place, and nobody takes it.
    slot.skipped = true;
    slot.size = {1, 1};
    return slot.reserve(method, slot.size);
  };
  source.take = [&](size_t frame, Slot& slot) {
    if (slot.skipped) return kPass;
    HostFrame want;
    want.size = slot.size;
    want.rgb.assign(slot.h_rgb.get(),
                    slot.h_rgb.get() + 3 * slot.size.pixels());
    want.compute();
    TRY(judgeFrame(files[frame].string(), want, slot, &forgiven,
                   [] { return std::string(); }));
    const std::string why = writeNetpbm(outputOf(frame), slot.h_edges.get(),
                                        slot.size.rows, slot.size.cols, 1);
    if (!why.empty()) refuse(outputOf(frame), why);
    written += why.empty();
    return kPass;
  };
  const Exit exit = conveyor.run(program.stream, source);
  progress("");
  if (exit == kNoGpu) return exit;
  const bool passed = exit == kPass && bad == 0;
  printf(
      "%s: %zu of %zu files, edges in %s, equal to the CPU reference (%zu "
      "forgiven), %zu skipped, %.1f s\nresult: %s\n",
      options.in.c_str(), written, files.size(), options.out.c_str(), forgiven,
      bad, hostMs(start) / 1000.0, passed ? "pass" : "fail");
  return passed ? kPass : kFailed;
}

// ====================================================================== main

// Checks every stage in one case and prints the case's line. A stage that
// failed before is not launched again, nor is a chain of which a part failed.
inline Exit runFrameCase(const FrameCase& theCase, const FramesProgram& program,
                         unsigned seed, FrameWork& work,
                         std::vector<const FrameStage*>* failed) {
  size_t pixels = 0, forgiven = 0, stages = 0;
  double worst = 0.0;
  for (const Size& size : theCase.sizes) {
    progress(std::string("case ") + theCase.name + ": reference");
    work.want.size = size;
    theCase.fill(work.want, seed + static_cast<unsigned>(pixels));
    TRY(work.prepare());
    for (const Method& method : program.methods) {
      TRY(work.d_got.reserveScratch(method, size));
    }
    pixels += size.pixels();
    const std::string wrong = theCase.judge ? theCase.judge(work.want) : "";
    if (!wrong.empty()) {
      fflush(stdout);
      fprintf(stderr, "FAIL the CPU reference, case %s: %s\n", theCase.name,
              wrong.c_str());
      return kFailed;
    }
    stages = 0;
    for (const Method& method : program.methods) {
      const auto fails = [&](const FrameStage& stage) {
        return std::find(failed->begin(), failed->end(), &stage) !=
               failed->end();
      };
      const FrameStage& chain = method.chain();
      stages += method.stages.size();
      for (const FrameStage& stage : method.stages) {
        if (fails(stage)) continue;
        progress(std::string("case ") + theCase.name + ": " + stage.label);
        const Exit exit =
            &stage == &chain && std::any_of(&method.stages[0], &chain, fails)
                ? kFailed
                : checkFrameStage(stage, method, theCase.name,
                                  theCase.sizes.size() > 1 ? 3 : 1,
                                  !fails(chain), work, &forgiven, &worst);
        if (exit == kNoGpu) return exit;
        if (exit != kPass) failed->push_back(&stage);
      }
    }
  }
  progress("");
  printf(
      "case %s: %zu size%s, %zu pixels, %zu of %zu stages pass, %zu "
      "forgiven, worst error %.1e: %s\n",
      theCase.name, theCase.sizes.size(), theCase.sizes.size() == 1 ? "" : "s",
      pixels, stages - failed->size(), stages, forgiven, worst,
      failed->empty() ? "pass" : "FAIL");
  fflush(stdout);
  return kPass;
}

// Every case, the streams, the report card.
inline Exit runFrames(const FramesProgram& program, const FrameOptions& options,
                      const Card& card) {
  const unsigned seed = static_cast<unsigned>(options.seed);
  FrameWork work;
  Notes notes;
  std::vector<const FrameStage*> failed;
  for (const FrameCase& theCase : frameCases(options.size)) {
    TRY(runFrameCase(theCase, program, seed, work, &failed));
  }
  bool passed = failed.empty(), pinned = true;
  std::vector<size_t> counts = {1, 2, 3};
  if (options.buffers > 3) counts.push_back(options.buffers);
  for (const Method& method : program.methods) {
    const FrameStage* const last = &method.stages.back();
    if (std::count(failed.begin(), failed.end(), last) != 0) continue;
    for (const size_t buffers : counts) {
      const Exit exit =
          checkStreams(program.stream, method, options.frames, buffers, seed);
      if (exit == kNoGpu) return exit;
      passed = passed && exit == kPass;
      if (exit != kPass) break;
    }
  }
  Slot slot;
  TRY(slot.reserve(program.methods[0], {1, 1}));
  TRY(isPinned(slot, &pinned));
  if (passed) {
    bool independent = true;
    TRY(checkIndependence(program.stream, program.methods[0], &independent));
    if (!independent) {
      notes.add(
          "a frame waits for the other stream too, and nothing overlaps. The "
          "likely cause: a launch or a copy on the default stream, a call that "
          "waits for the whole GPU, or a tool that lets one thing run at a "
          "time");
    }
  }
  if (!pinned) {
    notes.add(
        "the streams' host memory is pageable: every copy waits, and "
        "nothing overlaps");
  }
  if (!options.timing) {
    printf("timing: not asked for\n");
  } else if (!card.timing) {
    printf("timing: none, this device has no clock\n");
  } else if (!passed) {
    printf("timing: none, since a check failed\n");
  } else {
    const Exit exit = reportCard(program, options, work, &notes);
    if (exit != kPass && exit != kFailed) return exit;
    passed = exit == kPass;
  }
  if (options.strict && notes.count != 0) {
    printf("strict: a note counts as a failure\n");
    passed = false;
  }
  printf("result: %s\n", passed ? "pass" : "fail");
  return passed ? kPass : kFailed;
}

inline void printFramesUsage(FILE* stream, const char* program) {
  fprintf(stream,
          "usage: %s [--size RxC] [--frames N] [--buffers N] [--seed N]\n"
          "           [--no-timing] [--strict] [--timeline FILE]\n"
          "       %s --in DIR --out DIR [--buffers N]\n\n"
          "Without --in: checks every stage, streams many frames, prints a "
          "report card.\n"
          "  --size RxC       rows x cols of a timed frame, 1080x1920 unless "
          "given\n"
          "  --frames N       frames of the streams' check, 1000 unless given\n"
          "  --buffers N      that frames travel through, 1 to 16, 2 unless "
          "given\n"
          "  --seed N         other images\n"
          "  --no-timing      no report card\n"
          "  --strict         notes (slow, but not wrong) fail too\n"
          "  --timeline FILE  when each frame's copies and kernels ran\n"
          "With --in: the edges of each PPM or PGM file in DIR, as "
          "NAME_edges.pgm in --out.\n"
          "  --help, --version\n"
          "exit code: 0 passed, 1 a check failed or a file was skipped, 2 "
          "usage or bad input,\n"
          "3 no usable GPU or a CUDA error\n",
          program, program);
}

// A whole number of `least` to `most` at *text, which is moved past it.
inline bool parseNumber(const char** text, size_t least, size_t most,
                        size_t* value) {
  char* end = nullptr;
  if (**text < '0' || **text > '9') return false;
  errno = 0;
  *value = static_cast<size_t>(strtoull(*text, &end, 10));
  *text = end;
  return errno == 0 && *value >= least && *value <= most;
}

// Fills in the options. Returns what is wrong with the command line, or "".
inline std::string parseFrameOptions(int argc, char** argv,
                                     FrameOptions* options) {
  bool untimed = false;
  const struct {
    const char* name;
    bool* flag;
    std::string* text;
    size_t *number, *second;  // with an x between
    size_t least, most;
  } known[] = {
      {"--help", &options->help, nullptr, nullptr, nullptr, 0, 0},
      {"-h", &options->help, nullptr, nullptr, nullptr, 0, 0},
      {"--version", &options->version, nullptr, nullptr, nullptr, 0, 0},
      {"--strict", &options->strict, nullptr, nullptr, nullptr, 0, 0},
      {"--no-timing", &untimed, nullptr, nullptr, nullptr, 0, 0},
      {"--in", nullptr, &options->in, nullptr, nullptr, 0, 0},
      {"--out", nullptr, &options->out, nullptr, nullptr, 0, 0},
      {"--timeline", nullptr, &options->timeline, nullptr, nullptr, 0, 0},
      {"--frames", nullptr, nullptr, &options->frames, nullptr, 1, 10000000},
      {"--buffers", nullptr, nullptr, &options->buffers, nullptr, 1, 16},
      {"--seed", &options->seeded, nullptr, &options->seed, nullptr, 0,
       UINT_MAX},
      {"--size", nullptr, nullptr, &options->size.rows, &options->size.cols, 1,
       kMostSide},
  };
  std::string checkOnly;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const auto* option =
        std::find_if(std::begin(known), std::end(known),
                     [&](const auto& o) { return word == o.name; });
    if (option == std::end(known)) return "unknown option " + word;
    if (word != "--in" && word != "--out" && word != "--buffers") {
      checkOnly = word;
    }
    if (option->flag != nullptr) *option->flag = true;
    if (option->text == nullptr && option->number == nullptr) continue;
    if (i + 1 == argc || argv[i + 1][0] == '\0') return word + " needs a value";
    const char* text = argv[++i];
    if (option->text != nullptr) {
      *option->text = text;
      continue;
    }
    const size_t least = option->least, most = option->most;
    bool fine = parseNumber(&text, least, most, option->number);
    if (option->second != nullptr) {
      fine = fine && *text++ == 'x' &&
             parseNumber(&text, least, most, option->second);
    }
    if (!fine || *text != '\0') {
      return word + " " + argv[i] +
             (option->second ? ": not ROWSxCOLS, each "
                             : ": not a whole "
                               "number ") +
             "of " + std::to_string(least) + " to " + std::to_string(most);
    }
  }
  options->timing = !untimed;
  if (options->help || options->version) return "";
  if (options->in.empty() != options->out.empty()) {
    return "--in and --out go together";
  }
  if (!options->in.empty() && !checkOnly.empty()) {
    return checkOnly + " does not go with --in";
  }
  return !options->timeline.empty() && !options->timing
             ? "--timeline needs the timing"
             : "";
}

// What all three programs run.
inline int framesMain(int argc, char** argv, const FramesProgram& program) {
  FrameOptions options;
  const std::string error = parseFrameOptions(argc, argv, &options);
  if (const auto exit = answered(argv[0], error, options.help, options.version,
                                 program.title, printFramesUsage)) {
    return *exit;
  }
  Card card;
  TRY(preflight(&card));
  Options shown;
  shown.seeded = options.seeded;
  shown.seed = static_cast<unsigned>(options.seed);
  printHeader({program.title, program.sources, {}, nullptr}, shown, card);
  return options.in.empty() ? runFrames(program, options, card)
                            : runFolder(program, options);
}
