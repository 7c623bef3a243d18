// Grades transcripts of the lesson and of its gate: recomputes every figure
// from the rows, and names the line and both numbers where they disagree.
//
// Build:  c++ -std=c++17 -O2 -o grade exercises/grade.cpp
// Run:    ./grade two_pass.txt                  one transcript, or many
//         ./grade --csv submissions/            all .txt and .log of a folder
//         ./grade --rerun jane/two_pass.cu      build and run it, and grade
//         that
//         ./grade --chart rows.svg two_pass.txt
//         ./grade --help
//
// It reads beside itself the convolution.cu that it compares with, so build it
// where it lies. Exit code: 0 all pass, 1 some fail, 2 usage or unreadable.
//
// In this file: figures and intervals; the lines of a transcript; reading;
// judging; printing; the chart; what a student's file may hold; running it;
// main.
//
// SPDX-License-Identifier: MIT

#include <algorithm>
#include <array>
#include <cctype>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>
#ifndef _WIN32
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#endif

namespace fs = std::filesystem;
using Text = std::string_view;

// A string as printf takes it; anything else as it is.
const char* plain(const std::string& text) {
  return text.c_str();
}
template <class T>
T plain(T value) {
  return value;
}

// printf into a string. Takes std::string too. The 0 at the end is for calls
// without arguments, which compilers warn of.
template <class... Args>
std::string format(const char* pattern, const Args&... args) {
  const int size = std::snprintf(nullptr, 0, pattern, plain(args)..., 0);
  std::string text(static_cast<size_t>(std::max(size, 0)) + 1, '\0');
  std::snprintf(text.data(), text.size(), pattern, plain(args)..., 0);
  text.pop_back();
  return text;
}

bool startsWith(Text text, Text prefix) {
  return text.substr(0, prefix.size()) == prefix;
}
bool endsWith(Text text, Text end) {
  return text.size() >= end.size() &&
         text.substr(text.size() - end.size()) == end;
}

// At most `most` bytes of a text, in quotation marks, for a message.
std::string inQuotes(Text text, size_t most = 60) {
  return "\"" + std::string(text.substr(0, most)) +
         (text.size() > most ? "...\"" : "\"");
}

// ======================================================= figures and intervals

// All the numbers that something may be. All of them positive.
struct Interval {
  double low = 0.0, high = 0.0;
  double middle() const { return (low + high) / 2; }
};
Interval operator/(Interval a, Interval b) {
  return {a.low / b.high, a.high / b.low};
}
Interval operator+(Interval a, Interval b) {
  return {a.low + b.low, a.high + b.high};
}
Interval scaled(Interval a, double factor, double offset = 0.0) {
  return {a.low * factor + offset, a.high * factor + offset};
}

// What stands in a line: text, or a number with so many decimals, which means
// every number that rounds to it.
struct Figure {
  std::string text;
  double value = 0.0;
  int decimals = 0;

  uint64_t count() const { return std::strtoull(text.c_str(), nullptr, 10); }
  Interval interval() const {
    const double half = 0.5 * std::pow(10.0, -decimals);
    return {value - half, value + half};
  }
  // Whether some number of the interval is printed so. The rest is for the
  // rounding of this program's own arithmetic.
  bool fits(Interval computed) const {
    const Interval own = interval();
    const double rest = 1e-9 * (1.0 + std::fabs(value));
    return own.low - rest <= computed.high && computed.low <= own.high + rest;
  }
};

// Whether a line reads like the pattern, and what stands at its places:
//   %s  text, up to what follows      %u  a whole number
//   %w  letters                       %3  a number with exactly 3 decimals
//   %h  16 hexadecimal digits         %+2 the same with a sign
//   %e  as printf's %.1e              %%  a percent sign
bool match(Text line, const char* pattern, std::vector<Figure>* figures) {
  const auto span = [&](const char* allowed, size_t start = 0) {
    const size_t end = line.find_first_not_of(allowed, start);
    return std::min(end, line.size()) - std::min(start, line.size());
  };
  constexpr const char* kDigits = "0123456789";
  figures->clear();
  for (; *pattern != '\0'; ++pattern) {
    if (*pattern != '%' || *++pattern == '%') {
      if (line.empty() || line[0] != *pattern) return false;
      line.remove_prefix(1);
      continue;
    }
    Figure found;
    size_t length = 0;
    if (*pattern == 's') {
      const char* const next = pattern + 1;
      const size_t stop = std::strcspn(next, "%");
      length = stop == 0 ? line.size() : line.find(Text(next, stop));
      if (length == Text::npos) return false;
    } else if (*pattern == 'w') {
      while (length < line.size() &&
             std::isalpha(static_cast<unsigned char>(line[length]))) {
        ++length;
      }
    } else if (*pattern == 'h') {
      length = std::min<size_t>(span("0123456789abcdef"), 16);
      if (length != 16) return false;
    } else {
      const bool sign = *pattern == '+';
      if (sign) ++pattern;
      if (sign && !line.empty() && std::strchr("+-", line[0])) length = 1;
      const size_t whole = span(kDigits, length);
      if (whole < 1 || whole > 15) return false;
      length += whole;
      found.decimals = *pattern == 'e'   ? 1
                       : *pattern == 'u' ? 0
                                         : *pattern - '0';
      if (found.decimals > 0) {
        const size_t decimals = span(kDigits, length + 1);
        if (length >= line.size() || line[length] != '.' ||
            decimals != static_cast<size_t>(found.decimals)) {
          return false;
        }
        length += 1 + decimals;
      }
      if (*pattern == 'e') {
        if (!startsWith(line.substr(length), "e-") &&
            !startsWith(line.substr(length), "e+")) {
          return false;
        }
        length += 2 + span(kDigits, length + 2);
      }
    }
    found.text = std::string(line.substr(0, length));
    found.value = std::strtod(found.text.c_str(), nullptr);
    figures->push_back(found);
    line.remove_prefix(length);
  }
  return line.empty();
}

// =================================================== the lines of a transcript

// When a line has to be there.
enum class Need { kAlways, kGate, kTimed, kOptional };

// A line that the grader knows. It is known by its text up to the first place.
struct Slot {
  const char* name;
  Need need;
  const char* pattern;          // how it reads
  const char* other = nullptr;  // or else
};

#define CASE(name)                                            \
  {                                                           \
    "case " name, Need::kAlways,                              \
        "case " name                                          \
        ": %s pixels, %u of %u stages pass, %u left out, %u " \
        "forgiven, worst error %e, reference %h: %w"          \
  }
#define CHAIN(name)                                          \
  {                                                          \
    "gate of " name, Need::kTimed,                           \
        "gate: " name                                        \
        " takes %3 of the sum of its parts, and may not be " \
        "faster than one alone: %w"                          \
  }
#define MEASURED ", measured nothing, no GPU timings in this run"

// In the order in which they come. The rows of the table follow its head.
enum Id {
  kDate,
  kGpu,
  kDriver,
  kBuilt,
  kLesson,
  kStudent,
  kSeed,
  kOdd,
  kImpulse,
  kSmall,
  kSkew,
  kFlat,
  kPicture,
  kBase,
  kPerf,
  kUntimed,
  kHead,
  kCpu,
  kShare,
  kPadding,
  kClock,
  kTwoKernels,
  kPipeline,
  kRate,
  kSet,
  kLoads,
  kTraffic,
  kPitch,
  kRatio,
  kExplanation,
  kResult,
  kIds
};
const Slot kSlots[kIds] = {
    {"date", Need::kAlways, "date: %s UTC"},
    {"gpu", Need::kAlways, "gpu: %s, compute capability %1, %u SMs, L2 %1 MiB"},
    {"driver", Need::kAlways, "driver: %1, runtime: %1, nvcc: %s"},
    {"built for", Need::kAlways,
     "built for: %s; host compiler: %s; optimised: %s"},
    {"source of the lesson", Need::kAlways, "source: convolution.cu fnv1a64 %h",
     "source: convolution.cu fnv1a64 unknown"},
    {"source of the exercise", Need::kGate, "source: %s fnv1a64 %h",
     "source: %s fnv1a64 unknown"},
    {"seed", Need::kAlways, "seed: %u", "seed: none, the lesson's own images"},
    CASE("odd"),
    CASE("impulse"),
    CASE("small"),
    CASE("skew"),
    CASE("flat"),
    {"picture", Need::kAlways,
     "picture: day20_input.pgm, day20_blur.pgm, day20_edges.pgm written and "
     "read back; %2%% of the edges are white"},
    CASE("base"),
    CASE("perf"),
    {"no timing", Need::kOptional, "timing: none, %s", "timing: not asked for"},
    {"head of the table", Need::kTimed, "stage %s x best"},
    {"CPU / GPU", Need::kTimed, "CPU / GPU: %4 / %4 ms = %1 (%s"},
    {"pipeline", Need::kTimed, "pipeline: %1%% of the plain copy's bandwidth"},
    {"padding", Need::kTimed,
     "padding: pitch 37 changed the tiled blur's time by %+2%%"},
    {"SM clock", Need::kTimed, "SM clock: %0 MHz before the table, %0 after"},
    CHAIN("sobel + threshold, two kernels"),
    CHAIN("pipeline, blur + fused"),
    {"gate of the memory's rate", Need::kOptional,
     "gate: no row above 3 times the memory's theoretical %1 GB/s: %w"},
    {"working set", Need::kTimed,
     "working set: %1 MiB or more a row, L2 %1 MiB: %s"},
    {"prediction of the loads", Need::kGate,
     "loads of a tile: predicted %u, counted %u"},
    {"prediction of the traffic", Need::kGate,
     "staged / fused: predicted %2, measured %2",
     "staged / fused: predicted %2" MEASURED},
    {"prediction of the padding", Need::kGate,
     "pitch 37 helps: predicted %w, measured %+2%% time",
     "pitch 37 helps: predicted %w" MEASURED},
    {"prediction of the ratio", Need::kGate,
     "two-kernel / one-kernel: predicted %2, measured %2",
     "two-kernel / one-kernel: predicted %2" MEASURED},
    {"explanation", Need::kGate, "explanation: %s"},
    {"result", Need::kAlways, "result: pass", "result: fail"},
};

// What the case lines must say.
constexpr uint64_t kPerfPixels = 4096 * 4096;
const struct {
  Id id;
  const char* sizes;
  uint64_t pixels;
} kCases[] = {
    {kOdd, "613 rows x 611 cols, grid (20, 20), 374543", 374543},
    {kImpulse, "256 rows x 256 cols, grid (8, 8), 65536", 65536},
    {kSmall, "10 sizes, 27282", 27282},
    {kSkew, "67 rows x 45 cols, grid (2, 3), 3015", 3015},
    {kFlat, "65 rows x 65 cols, grid (3, 3), 4225", 4225},
    {kBase, "1024 rows x 1024 cols, grid (32, 32), 1048576", 1048576},
    {kPerf, "4096 rows x 4096 cols, grid (128, 128), 16777216", kPerfPixels},
};

// The rows that the table must have, in this order; others may stand between.
// 0 bytes a pixel: a CPU row, without a bandwidth.
constexpr const char* kCopyRow = "copy (the baseline)";
constexpr const char* kTiledRow = "blur, tiled, pitch 36";
constexpr const char* kPaddedRow = "blur, tiled, pitch 37 (padded)";
constexpr const char* kSeparableRow = "blur, separable, one kernel";
constexpr const char* kTwoKernelRow = "blur, separable, two kernels";
constexpr const char* kStagedRow = "sobel + threshold, two kernels";
constexpr const char* kFusedRow = "sobel + threshold, fused";
constexpr const char* kPipelineRow = "pipeline, blur + fused";
constexpr const char* kCpuRow = "CPU, one thread, whole pipeline";
const struct RequiredRow {
  const char* label;
  uint64_t bytesPerPixel;
  bool gate;  // in transcripts of the gate alone
} kRows[] = {
    {kCopyRow, 8, false},      {"blur, naive", 8, false},
    {kTiledRow, 8, false},     {kPaddedRow, 8, false},
    {kSeparableRow, 8, false}, {"sobel magnitude", 8, false},
    {"threshold", 5, false},   {kStagedRow, 13, false},
    {kFusedRow, 5, false},     {kPipelineRow, 13, false},
    {kTwoKernelRow, 16, true}, {kCpuRow, 0, false},
};
constexpr size_t kMaxRows = 64;

const RequiredRow* requiredRow(Text label) {
  for (const RequiredRow& row : kRows) {
    if (row.label == label) return &row;
  }
  return nullptr;
}

// Rows that run two others one after the other.
const struct {
  Id id;
  const char *whole, *parts[2];
} kChains[] = {
    {kTwoKernels, kStagedRow, {"sobel magnitude", "threshold"}},
    {kPipeline, kPipelineRow, {kTiledRow, kFusedRow}},
};

// One row of a table, as printed.
struct TableRow {
  std::string label;
  size_t line = 0;
  Figure ms, rate, copy, spread, best;
  double bytes = 0;  // 0: n/a, and so are rate, copy and best

  // The milliseconds, as narrow as the printed ms and GB/s together say.
  Interval time() const {
    const Interval own = ms.interval(), printed = rate.interval();
    if (bytes == 0 || printed.low <= 0.0) return own;
    const Interval both = {std::max(own.low, bytes / 1e6 / printed.high),
                           std::min(own.high, bytes / 1e6 / printed.low)};
    return both.low <= both.high ? both : own;
  }
  Interval bandwidth() const {  // GB/s
    return Interval{bytes / 1e6, bytes / 1e6} / time();
  }
};

// A row's label is what stands before its last six words.
bool scanRow(Text line, TableRow* row) {
  Text words[6];
  for (int i = 5; i >= 0; --i) {
    line = line.substr(0, line.find_last_not_of(' ') + 1);
    const size_t blank = line.rfind(' ');
    if (blank == Text::npos) return false;
    words[i] = line.substr(blank + 1);
    line = line.substr(0, blank);
  }
  line = line.substr(0, line.find_last_not_of(' ') + 1);
  if (line.empty() || line[0] == ' ') return false;
  row->label = std::string(line);
  const auto take = [](Text word, const char* pattern, Figure* figure) {
    std::vector<Figure> one;
    if (!match(word, pattern, &one)) return false;
    *figure = one[0];
    return true;
  };
  if (!take(words[0], "%4", &row->ms)) return false;
  if (words[4] != "n/a" && !take(words[4], "%2%%", &row->spread)) return false;
  if (words[1] == "n/a") {
    return words[2] == "n/a" && words[3] == "n/a" && words[5] == "n/a";
  }
  Figure bytes;
  const bool numbers =
      take(words[1], "%1", &row->rate) && take(words[2], "%u", &bytes) &&
      take(words[3], "%3", &row->copy) && take(words[5], "%3", &row->best);
  row->bytes = bytes.value;
  return numbers && row->bytes > 0;
}

// ===================================================================== reading

// How often a line came, where first and next, and what the first one says.
struct Seen {
  size_t count = 0, line = 0, again = 0;
  std::string text;
  bool sound = false;  // it reads as it should, to its end
  std::vector<Figure> figures;

  void add(size_t at, Text line_, bool sound_) {
    if (++count == 2) again = at;
    if (count > 1) return;
    line = at;
    text = std::string(line_);
    sound = sound_;
  }
  // What stands at a place of the pattern, nothing if the line is not sound.
  const Figure& operator[](size_t i) const {
    static const Figure kNothing;
    return sound && i < figures.size() ? figures[i] : kNothing;
  }
};

// All that is kept of a transcript, however long it is.
struct Transcript {
  uint64_t bytes = 0;
  size_t lines = 0;
  size_t nulLine = 0;   // the first with a NUL byte in it
  std::string program;  // "image convolution" or "two_pass"
  Seen title, failure;
  std::array<Seen, kIds> seen;
  std::vector<TableRow> rows;  // no more than kMaxRows
  size_t tooManyRows = 0;      // the line of the first row beyond that
  size_t tableEnd = 0;         // the line that is no row any more
  std::string tableEndText;

  const Seen& operator[](Id id) const { return seen[id]; }
  bool timed() const { return seen[kUntimed].count == 0; }
  bool isGate() const { return program == "two_pass"; }
  const TableRow* row(Text label) const {
    for (const TableRow& found : rows) {
      if (found.label == label) return &found;
    }
    return nullptr;
  }
};

// Reads a transcript piece by piece, in constant memory.
//
// A line is what a terminal shows: without its escape sequences, from its last
// carriage return on, without blanks at its end. If something stands before
// the title on its line (a prompt, a quotation mark, an indent), the same is
// taken from the lines after it. UTF-16 and byte-order marks are understood.
// A line that the grader knows counts wherever it is; one that only starts
// like one counts, as damaged, between the title and the result; a failure
// that the lesson reports counts anywhere after the title.
class Reader {
 public:
  explicit Reader(Transcript* transcript) : t_(*transcript) {}

  void feed(const char* data, size_t size) {
    if (t_.bytes == 0) wide_ = startsWith(Text(data, size), "\xFF\xFE");
    if (!wide_) {
      t_.bytes += size;
      return split(Text(data, size));
    }
    std::string lower;  // without the upper bytes and the mark
    for (size_t i = 0; i < size; ++i, ++t_.bytes) {
      if (t_.bytes >= 2 && t_.bytes % 2 == 0) lower += data[i];
    }
    split(lower);
  }
  void finish() {
    if (!line_.empty()) endLine();
  }

 private:
  static constexpr size_t kLineCap = 16384;  // the rest of a line is dropped
  static constexpr size_t kShortest = 7;     // "seed: 1"
  static constexpr Text kGuess = "  a guess, no more: ";

  // Takes a piece apart at its line ends.
  void split(Text piece) {
    if (t_.nulLine == 0 && piece.find('\0') != Text::npos) {
      const Text before = piece.substr(0, piece.find('\0'));
      t_.nulLine =
          t_.lines + 1 + std::count(before.begin(), before.end(), '\n');
    }
    for (;;) {
      const size_t end = piece.find('\n');
      const Text part = piece.substr(0, end);
      line_ += part.substr(0, kLineCap - line_.size());
      if (end == Text::npos) return;
      endLine();
      piece.remove_prefix(end + 1);
    }
  }

  // The line as a terminal shows it, in `shown_`.
  void show() {
    Text raw = line_;
    while (endsWith(raw, "\r")) raw.remove_suffix(1);
    raw.remove_prefix(raw.rfind('\r') + 1);  // npos + 1 is 0
    shown_.clear();
    for (size_t i = 0; i < raw.size(); ++i) {
      const unsigned char c = static_cast<unsigned char>(raw[i]);
      if (c == 0x1B) {
        i = escapeEnd(raw, i);
      } else if (c >= 0x20 && c != 0x7F) {
        shown_ += raw[i];
      }
    }
  }
  // The last byte of the escape sequence that starts at `at`: ESC [ up to a
  // letter or sign from @ to ~, ESC ] up to BEL or ESC \, else ESC and what
  // follows it: one byte, or two after a byte from blank to /.
  static size_t escapeEnd(Text raw, size_t at) {
    const char kind = at + 1 < raw.size() ? raw[at + 1] : '\0';
    size_t i = at + 2;
    if (kind == '[') {
      while (i < raw.size() && (raw[i] < '@' || raw[i] > '~')) ++i;
      return i;
    }
    if (kind == ']') {
      while (i < raw.size() && raw[i] != '\a' && raw[i] != 0x1B) ++i;
      return i < raw.size() && raw[i] == 0x1B ? i + 1 : i;
    }
    return kind >= ' ' && kind <= '/' ? i : i - 1;
  }

  void endLine() {
    if (++t_.lines == 1 && startsWith(line_, "\xEF\xBB\xBF")) line_.erase(0, 3);
    if (line_.size() >= kShortest || inTable_) {
      if (line_.find_first_of("\r\x1B") != std::string::npos) {
        show();
        line_.swap(shown_);
      }
      take(line_);
    }
    line_.clear();
  }

  void take(Text line) {
    while (endsWith(line, " ")) line.remove_suffix(1);
    if (!prompt_.empty() && startsWith(line, prompt_)) {
      line.remove_prefix(prompt_.size());
    }
    const bool inTable = inTable_;
    inTable_ = false;
    if (isTitle(line)) return;
    if (takeRow(line, inTable)) return;
    if (inTable) endTable(line);
    if (line.empty()) return;
    const bool inRun = t_.title.count > 0 && t_.seen[kResult].count == 0;
    if (takeSlot(line, inRun) || t_.title.count == 0) return;
    if (startsWith(line, "FAIL ") || startsWith(line, "no-gpu: ") ||
        (startsWith(line, "gate: ") &&
         (endsWith(line, ": FAIL") || endsWith(line, " on this card")))) {
      t_.failure.add(t_.lines, line, true);
    } else if (t_.failure.count == 1 && startsWith(line, kGuess)) {
      t_.failure.text += ": " + std::string(line.substr(kGuess.size()));
    }
  }

  void endTable(Text line) {
    if (t_.tableEnd != 0) return;
    t_.tableEnd = t_.lines;
    t_.tableEndText = std::string(line);
  }

  // "day20 image convolution 1.0.0", after whatever prompt.
  bool isTitle(Text line) {
    if (line.size() < 20) return false;
    for (size_t at = line.find("day20 "); at != Text::npos;
         at = line.find("day20 ", at + 1)) {
      for (const char* program : {"image convolution", "two_pass"}) {
        const std::string pattern = format("day20 %s %%u.%%u.%%u", program);
        if (!match(line.substr(at), pattern.c_str(), &ignored_)) continue;
        if (t_.title.count == 0) {
          prompt_ = std::string(line.substr(0, at));
          t_.program = program;
        }
        t_.title.add(t_.lines, line.substr(at), true);
        return true;
      }
    }
    return false;
  }

  // A row of the table, or one that a table must have, wherever it stands.
  bool takeRow(Text line, bool inTable) {
    const bool known = std::any_of(
        std::begin(kRows), std::end(kRows),
        [&](const RequiredRow& row) { return startsWith(line, row.label); });
    TableRow row;
    if (!(inTable || known) || !scanRow(line, &row)) return false;
    inTable_ = inTable;
    row.line = t_.lines;
    if (t_.rows.size() < kMaxRows) {
      t_.rows.push_back(row);
    } else if (t_.tooManyRows == 0) {
      t_.tooManyRows = t_.lines;
    }
    return true;
  }

  bool takeSlot(Text line, bool inRun) {
    for (size_t i = 0; i < kIds; ++i) {
      const Slot& slot = kSlots[i];
      Seen& seen = t_.seen[i];
      if (line[0] != slot.pattern[0]) continue;
      std::vector<Figure>& figures = seen.count == 0 ? seen.figures : ignored_;
      const bool sound =
          match(line, slot.pattern, &figures) ||
          (slot.other != nullptr && match(line, slot.other, &figures));
      const Text start(slot.pattern, std::strcspn(slot.pattern, "%"));
      if (!sound && !(inRun && startsWith(line, start))) continue;
      seen.add(t_.lines, line, sound);
      inTable_ = i == kHead && sound;
      return true;
    }
    return false;
  }

  Transcript& t_;
  std::vector<Figure> ignored_;  // what a second line of a kind says
  bool wide_ = false, inTable_ = false;
  std::string line_, shown_, prompt_;
};

bool readTranscript(std::FILE* file, Transcript* transcript) {
  std::vector<char> buffer(1 << 16);
  Reader reader(transcript);
  for (size_t got = 0;
       (got = std::fread(buffer.data(), 1, buffer.size(), file)) > 0;) {
    reader.feed(buffer.data(), got);
  }
  reader.finish();
  return std::ferror(file) == 0;
}

// ===================================================================== judging

// What a transcript is held against.
struct Demands {
  std::string program;       // "image convolution" or "two_pass"; "": either
  bool timing = true;        // no GPU timings is a failure
  std::string lessonHash;    // of the grader's own convolution.cu
  std::string solutionHash;  // of solutions/two_pass.cu
  std::string seed;          // "": any
  std::string studentHash;   // of the student's file; "": unknown
  const Transcript* references = nullptr;  // the grader's own run
  uint64_t stages = 0;                     // of that run; 0: unknown
};

enum class Verdict { kPass, kFail, kSkip };

struct Criterion {
  Verdict verdict;
  std::string name;
  size_t line;  // of the transcript; 0: none
  std::string text;
};

// The criteria of one submission.
struct Report {
  std::vector<Criterion> criteria;

  size_t count(Verdict verdict) const {
    size_t found = 0;
    for (const Criterion& c : criteria) found += c.verdict == verdict;
    return found;
  }
  bool passed() const { return count(Verdict::kFail) == 0; }
  const Criterion* firstFailure() const {
    for (const Criterion& c : criteria) {
      if (c.verdict == Verdict::kFail) return &c;
    }
    return nullptr;
  }
};

// One criterion in the making: it passes unless something was called wrong.
class Check {
 public:
  Check(Report& report, const char* name) : report_(report), name_(name) {}

  template <class... Args>
  void wrong(size_t line, const char* pattern, const Args&... args) {
    if (++wrongs_ > 1) return;
    line_ = line;
    text_ = format(pattern, args...);
  }
  // A printed figure against what it must be, and how that follows.
  void compare(size_t line, const std::string& label, const Figure& printed,
               Interval computed, const std::string& how) {
    if (printed.fits(computed)) return;
    wrong(line, "%s: %s, must be %.*f: %s", label, printed.text,
          printed.decimals, computed.middle(), how);
  }
  // Ends it. The rest is what to say if nothing was wrong.
  template <class... Args>
  bool end(size_t line, const char* pattern, const Args&... args) {
    const bool passed = wrongs_ == 0;
    if (wrongs_ > 1) text_ += format(" (and %zu more)", wrongs_ - 1);
    report_.criteria.push_back({passed ? Verdict::kPass : Verdict::kFail, name_,
                                passed ? line : line_,
                                passed ? format(pattern, args...) : text_});
    return passed;
  }

 private:
  Report& report_;
  std::string name_, text_;
  size_t wrongs_ = 0, line_ = 0;
};

// A line that a transcript should have.
struct Item {
  std::string name;
  Seen seen;
  bool required;
};

std::vector<Item> itemsOf(const Transcript& t) {
  std::vector<Item> items = {{"title", t.title, true}};
  for (size_t i = 0; i < kIds; ++i) {
    const Need need = kSlots[i].need;
    if (need == Need::kGate && !t.isGate()) continue;
    items.push_back(
        {kSlots[i].name, t.seen[i],
         need != Need::kOptional && (need != Need::kTimed || t.timed())});
    if (i != kHead) continue;
    for (const RequiredRow& row : kRows) {
      if (row.gate && !t.isGate()) continue;
      Seen seen;
      for (const TableRow& found : t.rows) {
        if (found.label == row.label) seen.add(found.line, row.label, true);
      }
      items.push_back({format("row \"%s\"", row.label), seen, t.timed()});
    }
  }
  return items;
}

// Every line there, once, whole, in order.
void judgeLines(const Transcript& t, Report& report) {
  Check there(report, "every line there"), once(report, "each line once");
  Check whole(report, "each line whole"), order(report, "lines in order");
  const std::vector<Item> items = itemsOf(t);
  const Item* before = nullptr;
  size_t required = 0;
  for (const Item& item : items) {
    const Seen& seen = item.seen;
    required += item.required;
    if (seen.count == 0) {
      if (!item.required) continue;
      if (startsWith(item.name, "row ") && t.tableEnd != 0) {
        there.wrong(t.tableEnd, "%s: not there; the table ends before %s",
                    item.name, inQuotes(t.tableEndText));
      } else {
        there.wrong(0, "%s: not there", item.name);
      }
      continue;
    }
    if (seen.count > 1) {
      once.wrong(seen.again, "%s: a second time, after line %zu", item.name,
                 seen.line);
    }
    if (!seen.sound) {
      whole.wrong(seen.line, "%s: not as the program prints it: %s", item.name,
                  inQuotes(seen.text));
    }
    if (before != nullptr && seen.line < before->seen.line) {
      order.wrong(seen.line, "%s: must come after %s, which is at line %zu",
                  item.name, before->name, before->seen.line);
    } else {
      before = &item;
    }
  }
  for (size_t i = 0; i < t.rows.size(); ++i) {
    const TableRow& row = t.rows[i];
    const TableRow* first = t.row(row.label);
    if (requiredRow(row.label) != nullptr || first == &row) continue;
    once.wrong(row.line, "row \"%s\": a second time, after line %zu", row.label,
               first->line);
  }
  if (t.tooManyRows != 0) {
    once.wrong(t.tooManyRows, "a table of more than %zu rows", kMaxRows);
  }
  there.end(0, "%zu required lines", required);
  once.end(0, "none twice");
  whole.end(0, "all as the program prints them");
  order.end(0, "as the program prints them");
}

// The hashes and the seed.
void judgeHeader(const Transcript& t, const Demands& demands, Report& report) {
  const Seen &lesson = t[kLesson], &student = t[kStudent], &seed = t[kSeed];
  Check given(report, "convolution.cu");
  if (endsWith(lesson.text, " unknown")) {
    given.wrong(lesson.line,
                "no hash: run the program where it was built, so "
                "that it finds its source");
  } else if (lesson[0].text != demands.lessonHash) {
    given.wrong(lesson.line,
                "not the given file: hash %s, the grader's own has "
                "%s",
                lesson[0].text, demands.lessonHash);
  }
  given.end(lesson.line, "the given one, hash %s", demands.lessonHash);

  if (t.isGate()) {
    const std::string& hash = student[1].text;
    Check handed(report, "student's file");
    if (hash.empty()) {
      handed.wrong(student.line, "no hash of the student's file");
    } else if (!demands.studentHash.empty() && hash != demands.studentHash) {
      handed.wrong(student.line, "hash %s, the file handed in has %s", hash,
                   demands.studentHash);
    }
    handed.end(student.line, "%s, hash %s%s", student[0].text, hash,
               hash == demands.solutionHash ? ": the published solution" : "");
  }

  Check asked(report, "seed");
  const std::string& used = seed[0].text;
  if (!demands.seed.empty() && used != demands.seed) {
    asked.wrong(seed.line, "%s, must be %s", used.empty() ? "none" : used,
                demands.seed);
  }
  asked.end(seed.line, "%s", used.empty() ? "none" : used);
}

void judgeCases(const Transcript& t, const Demands& demands, Report& report) {
  Check pixels(report, "sizes and pixels"), stages(report, "stages pass");
  Check errors(report, "errors"), references(report, "references");
  size_t line = 0;
  uint64_t all = demands.stages;
  for (const auto& known : kCases) {
    const Seen& seen = t[known.id];
    if (!seen.sound) continue;
    if (line == 0) line = seen.line;
    const char* const name = kSlots[known.id].name;
    if (seen[0].text != known.sizes) {
      pixels.wrong(seen.line, "%s: %s pixels, must be %s", name, seen[0].text,
                   known.sizes);
    }
    const uint64_t passed = seen[1].count(), checked = seen[2].count();
    const uint64_t leftOut = seen[3].count(), total = checked + leftOut;
    if (all == 0) all = std::max<uint64_t>(total, t.isGate() ? 11 : 10);
    if (seen[7].text != "pass" || passed != checked) {
      stages.wrong(seen.line, "%s: %s of %s stages pass: %s", name,
                   seen[1].text, seen[2].text, seen[7].text);
    } else if (total != all) {
      stages.wrong(seen.line, "%s: %.0f stages, must be %.0f", name,
                   static_cast<double>(total), static_cast<double>(all));
    } else if (leftOut != 0 && known.id != kSkew) {
      stages.wrong(seen.line, "%s: %s stages left out, which only skew may do",
                   name, seen[3].text);
    }
    // The lesson forgives 0.1% of a stage's pixels; its widest tolerance is
    // 1e-4 + 1e-5 of a magnitude of at most 10.
    if (seen[4].value > 0.001 * static_cast<double>(known.pixels * checked)) {
      errors.wrong(seen.line, "%s: %s pixels forgiven, more than 0.1%% a stage",
                   name, seen[4].text);
    }
    if (!(seen[5].value <= 2e-4)) {
      errors.wrong(seen.line, "%s: worst error %s, above every tolerance", name,
                   seen[5].text);
    }
    if (demands.references == nullptr) continue;
    const std::string& own = (*demands.references)[known.id][6].text;
    if (seen[6].text != own) {
      references.wrong(seen.line, "%s: %s, the grader's own run gave %s", name,
                       seen[6].text, own);
    }
  }
  uint64_t rows = 0;
  for (const TableRow& row : t.rows) rows += row.bytes > 0;
  if (t.timed() && rows < all) {
    stages.wrong(t[kHead].line, "%.0f stages checked, but only %.0f timed",
                 static_cast<double>(all), static_cast<double>(rows));
  }
  pixels.end(line, "those of the seven cases");
  stages.end(line, "all %.0f in every case", static_cast<double>(all));
  errors.end(line, "within the tolerances");
  if (demands.references != nullptr) {
    references.end(line, "those of the grader's own run with this seed");
  }
  const Seen& picture = t[kPicture];
  Check white(report, "picture");
  if (picture.sound && t[kSeed][0].text.empty() && picture[0].text != "2.43") {
    white.wrong(picture.line, "%s%% of the edges are white, must be 2.43%%",
                picture[0].text);
  }
  white.end(picture.line, "%s%% of the edges are white", picture[0].text);
}

// The table: whether each figure follows from the others, and can be.
void judgeTable(const Transcript& t, Report& report) {
  Check bytes(report, "bytes"), rates(report, "GB/s"), copies(report, "x copy");
  Check bests(report, "x best"), possible(report, "possible times");
  const TableRow* copy = t.row(kCopyRow);
  Interval best;
  for (const TableRow& row : t.rows) {
    if (row.bytes == 0 || !startsWith(row.label, "copy")) continue;
    best.low = std::max(best.low, row.bandwidth().low);
    best.high = std::max(best.high, row.bandwidth().high);
  }
  // Where the card did not tell: more than any memory of today.
  const bool told = t[kRate].sound;
  const double limit = told ? 3.0 * t[kRate][0].value : 30000.0;
  for (const TableRow& row : t.rows) {
    const RequiredRow* required = requiredRow(row.label);
    const double want =
        required ? static_cast<double>(required->bytesPerPixel * kPerfPixels)
                 : row.bytes;
    if (row.bytes != want || std::fmod(row.bytes, kPerfPixels) != 0.0) {
      bytes.wrong(
          row.line, "%s: %.0f bytes, must be %s", row.label, row.bytes,
          required ? format("%.0f", want) : std::string("whole bytes a pixel"));
    }
    if (row.ms.value < 0.001) {
      possible.wrong(row.line, "%s: %s ms, less than an empty launch takes",
                     row.label, row.ms.text);
      continue;
    }
    if (row.bytes == 0) continue;
    rates.compare(
        row.line, row.label, row.rate,
        Interval{row.bytes / 1e6, row.bytes / 1e6} / row.ms.interval(),
        format("%.0f bytes / %s ms", row.bytes, row.ms.text));
    const Interval own = row.bandwidth();
    if (copy != nullptr && copy->bytes != 0) {
      copies.compare(row.line, row.label, row.copy, own / copy->bandwidth(),
                     row.rate.text + " / " + copy->rate.text + " GB/s");
    }
    if (best.low > 0.0) {
      bests.compare(row.line, row.label, row.best, own / best,
                    format("%s / %.1f GB/s", row.rate.text, best.middle()));
    }
    if (own.low > limit) {
      possible.wrong(row.line, "%s: %s GB/s, above %.1f, %s", row.label,
                     row.rate.text, limit,
                     told ? "3 times the memory's rate" : "as no card does");
    }
  }
  for (const auto& chain : kChains) {
    const TableRow* whole = t.row(chain.whole);
    for (const char* label : chain.parts) {
      const TableRow* part = t.row(label);
      if (!whole || !part || whole->time().high >= part->time().low) continue;
      possible.wrong(whole->line, "%s: %s ms, less than its part %s, %s ms",
                     chain.whole, whole->ms.text, label, part->ms.text);
    }
  }
  if (copy == nullptr) copies.wrong(0, "no row \"%s\"", kCopyRow);
  const size_t line = t.rows.empty() ? 0 : t.rows[0].line;
  bytes.end(line, "those of the byte model");
  rates.end(line, "all follow from bytes and ms");
  copies.end(line, "all follow from the copy");
  bests.end(line, "all follow from the best copy");
  possible.end(line, "none above %.1f GB/s, no chain faster than a part",
               limit);
}

// The lines under the table.
void judgeRatios(const Transcript& t, Report& report) {
  Check check(report, "lines under the table");
  const TableRow *cpu = t.row(kCpuRow), *pipeline = t.row(kPipelineRow);
  const TableRow *copy = t.row(kCopyRow), *tiled = t.row(kTiledRow);
  const TableRow* padded = t.row(kPaddedRow);
  const Seen& speed = t[kCpu];
  if (speed.sound && cpu != nullptr && pipeline != nullptr) {
    for (const auto& [figure, row] :
         {std::pair(speed[0], cpu), std::pair(speed[1], pipeline)}) {
      if (figure.text == row->ms.text) continue;
      check.wrong(speed.line, "%s ms, but row \"%s\" at line %zu has %s",
                  figure.text, row->label, row->line, row->ms.text);
    }
    check.compare(speed.line, "CPU / GPU", speed[2],
                  cpu->time() / pipeline->time(),
                  cpu->ms.text + " / " + pipeline->ms.text + " ms");
  }
  if (t[kShare].sound && pipeline != nullptr && copy != nullptr) {
    check.compare(t[kShare].line, "pipeline, % of the copy", t[kShare][0],
                  scaled(pipeline->bandwidth() / copy->bandwidth(), 100.0),
                  pipeline->rate.text + " / " + copy->rate.text + " GB/s");
  }
  if (t[kPadding].sound && tiled != nullptr && padded != nullptr) {
    check.compare(t[kPadding].line, "padding, %", t[kPadding][0],
                  scaled(padded->time() / tiled->time(), 100.0, -100.0),
                  padded->ms.text + " / " + tiled->ms.text + " ms");
  }
  for (const auto& chain : kChains) {
    const Seen& seen = t[chain.id];
    const TableRow* rows[] = {t.row(chain.whole), t.row(chain.parts[0]),
                              t.row(chain.parts[1])};
    if (!seen.sound || !rows[0] || !rows[1] || !rows[2]) continue;
    check.compare(seen.line, kSlots[chain.id].name, seen[0],
                  rows[0]->time() / (rows[1]->time() + rows[2]->time()),
                  rows[0]->ms.text + " / (" + rows[1]->ms.text + " + " +
                      rows[2]->ms.text + ") ms");
  }
  for (const Id id : {kTwoKernels, kPipeline, kRate}) {
    if (!t[id].sound || t[id][1].text == "pass") continue;
    check.wrong(t[id].line, "%s: %s", kSlots[id].name, t[id][1].text);
  }
  if (t[kSet].sound) {
    check.compare(t[kSet].line, "working set, MiB", t[kSet][0], {80.0, 80.0},
                  "5 bytes a pixel");
    check.compare(t[kSet].line, "L2, MiB", t[kSet][1], t[kGpu][3].interval(),
                  "that of the gpu line");
  }
  check.end(speed.line, "all follow from the rows");
}

// The predictions, what was measured, and the explanation.
void judgeGate(const Transcript& t, const Demands& demands, Report& report) {
  Check predicted(report, "predictions");
  for (const Id id : {kLoads, kTraffic, kRatio}) {
    if (t[id][0].value > 0.0) continue;
    predicted.wrong(t[id].line, "no %s", kSlots[id].name);
  }
  if (t[kPitch][0].text != "yes" && t[kPitch][0].text != "no") {
    predicted.wrong(t[kPitch].line, "no %s", kSlots[kPitch].name);
  }
  if (t[kLoads].sound && t[kLoads][1].text != "1296") {
    predicted.wrong(t[kLoads].line, "%s loads counted, must be 1296",
                    t[kLoads][1].text);
  }
  predicted.end(t[kLoads].line,
                "loads %s (right: 1296), traffic %s (2.60), padding helps: %s "
                "(no), ratio %s (by bytes 2.00)",
                t[kLoads][0].text, t[kTraffic][0].text, t[kPitch][0].text,
                t[kRatio][0].text);

  Check measured(report, "measured beside them");
  const struct {
    Id id;
    const char *over, *under;
    double factor, offset;
  } ratios[] = {{kTraffic, kStagedRow, kFusedRow, 1.0, 0.0},
                {kPitch, kPaddedRow, kTiledRow, 100.0, -100.0},
                {kRatio, kTwoKernelRow, kSeparableRow, 1.0, 0.0}};
  for (const auto& ratio : ratios) {
    const Seen& seen = t[ratio.id];
    const TableRow *over = t.row(ratio.over), *under = t.row(ratio.under);
    if (!seen.sound) continue;
    const bool there = seen.figures.size() == 2, due = over && under;
    if (there != due) {
      measured.wrong(seen.line,
                     there ? "%s: a figure, but no rows for it"
                           : "%s: nothing measured, though it was",
                     kSlots[ratio.id].name);
    } else if (there) {
      measured.compare(
          seen.line, kSlots[ratio.id].name, seen[1],
          scaled(over->time() / under->time(), ratio.factor, ratio.offset),
          over->ms.text + " / " + under->ms.text + " ms");
    }
  }
  measured.end(t[kRatio].line, "%s", t[kRatio].text);

  const Seen& seen = t[kExplanation];
  if (!t.timed() && !demands.timing) {
    report.criteria.push_back({Verdict::kSkip, "explanation", seen.line,
                               "there is no measured ratio to explain"});
    return;
  }
  Check explanation(report, "explanation");
  std::istringstream in(seen[0].text);
  const auto words = std::distance(std::istream_iterator<std::string>(in),
                                   std::istream_iterator<std::string>());
  if (words == 0 || startsWith(seen[0].text, "none yet")) {
    explanation.wrong(seen.line, "none");
  } else if (words < 8) {
    explanation.wrong(seen.line, "%d words, must be 8 or more",
                      static_cast<int>(words));
  }
  explanation.end(seen.line, "%d words, for you to judge",
                  static_cast<int>(words));
}

// Whether there are GPU timings.
void judgeTiming(const Transcript& t, const Demands& demands, Report& report) {
  const Seen &gpu = t[kGpu], &head = t[kHead], &untimed = t[kUntimed];
  const bool emulated = gpu[0].text.find("CPU emulation") != std::string::npos;
  const bool mixed = !t.timed() && (head.count > 0 || !t.rows.empty());
  if (!demands.timing && !mixed && (emulated || !t.timed())) {
    report.criteria.push_back(
        {Verdict::kSkip, "timing", gpu.line, "no GPU timings, none asked for"});
    return;
  }
  Check check(report, "timing");
  if (mixed) {
    check.wrong(untimed.line, "%s, and yet there is a table at line %zu",
                inQuotes(untimed.text),
                head.count > 0 ? head.line : t.rows[0].line);
  } else if (emulated) {
    check.wrong(gpu.line, "no GPU timings: this ran without a GPU");
  } else if (!t.timed()) {
    check.wrong(untimed.line, "no GPU timings: %s", inQuotes(untimed.text));
  }
  check.end(head.line, "on %s", gpu[0].text);
}

Report judge(const Transcript& t, const Demands& demands) {
  Report report;
  Check text(report, "text"), title(report, "title");
  if (t.bytes == 0) text.wrong(0, "the file is empty");
  if (t.nulLine != 0) text.wrong(t.nulLine, "a NUL byte: this is no text file");
  if (!text.end(0, "%zu lines", t.lines)) return report;
  if (t.title.count == 0) {
    title.wrong(0,
                "no line \"day20 image convolution N.N.N\" or \"day20 "
                "two_pass N.N.N\": is this all that the program printed?");
  } else if (!demands.program.empty() && demands.program != t.program) {
    title.wrong(t.title.line, "%s, asked for is \"day20 %s\"",
                inQuotes(t.title.text), demands.program);
  }
  title.end(t.title.line, "%s", t.title.text);
  if (t.title.count == 0) return report;
  judgeLines(t, report);
  judgeHeader(t, demands, report);
  judgeCases(t, demands, report);
  judgeTiming(t, demands, report);
  if (t.timed()) {
    judgeTable(t, report);
    judgeRatios(t, report);
  }
  if (t.isGate()) judgeGate(t, demands, report);
  Check failure(report, "no failure reported"), result(report, "result");
  if (t.failure.count > 0) {
    failure.wrong(t.failure.line, "%s", inQuotes(t.failure.text, 300));
  }
  failure.end(0, "none");
  const Seen& last = t[kResult];
  if (last.text != "result: pass") {
    result.wrong(last.line, "%s",
                 last.count == 0 ? "none: is the transcript "
                                   "cut off?"
                                 : last.text);
  }
  result.end(last.line, "%s", last.text);
  return report;
}

// ==================================================================== printing

// One graded transcript.
struct Submission {
  std::string name;
  Transcript transcript;
  Report report;
};

// "predicted 2.00, measured 1.93".
std::string ratioText(const Transcript& t) {
  const size_t start = t[kRatio].text.find("predicted");
  return t.isGate() && t[kRatio].sound ? t[kRatio].text.substr(start) : "";
}

std::string verdictText(const Report& report) {
  const size_t failed = report.count(Verdict::kFail);
  const size_t skipped = report.count(Verdict::kSkip);
  const size_t judged = report.criteria.size() - skipped;
  std::string text = failed == 0
                         ? format("pass, %zu criteria", judged)
                         : format("FAIL, %zu of %zu criteria", failed, judged);
  if (skipped != 0) text += format(", %zu skipped", skipped);
  return text;
}

std::string kindText(const Transcript& t) {
  return t.title.count == 0 ? "" : t.isGate() ? "gate" : "lesson";
}

// A line a criterion, then the table of the submission.
void printReport(const Submission& s) {
  std::printf("%s\n", s.name.c_str());
  for (const Criterion& c : s.report.criteria) {
    const char* verdict = c.verdict == Verdict::kPass   ? "pass"
                          : c.verdict == Verdict::kFail ? "FAIL"
                                                        : "skip";
    const std::string line = c.line ? format("line %zu", c.line) : "-";
    std::printf("  %s  %-22s %-9s %s\n", verdict, c.name.c_str(), line.c_str(),
                c.text.c_str());
  }
  const Transcript& t = s.transcript;
  const std::string& date = t[kDate][0].text;
  const std::string& seed = t[kSeed][0].text;
  const std::pair<const char*, std::string> table[] = {
      {"ran on", t[kGpu][0].text + (date.empty() ? "" : ", " + date + " UTC")},
      {"seed", t[kSeed].sound && seed.empty() ? "none" : seed},
      {"two-kernel / one-kernel", ratioText(t)},
      {"explanation", t.isGate() ? t[kExplanation][0].text : ""},
      {"pipeline, % of the copy", t[kShare][0].text},
      {"CPU / GPU, never graded", t[kCpu][2].text},
      {"verdict", verdictText(s.report)},
  };
  std::printf("\n");
  for (const auto& [name, value] : table) {
    if (value.empty()) continue;
    std::printf("  %-24s %s\n", name, value.c_str());
  }
  std::printf("\n");
}

// All submissions, a line each.
void printSummary(const std::vector<Submission>& all) {
  size_t width = 10;
  for (const Submission& s : all) width = std::max(width, s.name.size());
  std::printf("%-*s  %-6s  %-28s  %s\n", static_cast<int>(width), "submission",
              "kind", "two-kernel / one-kernel", "verdict");
  for (const Submission& s : all) {
    const Criterion* first = s.report.firstFailure();
    std::string verdict = verdictText(s.report);
    if (first) verdict += ": " + first->name;
    std::printf("%-*s  %-6s  %-28s  %s\n", static_cast<int>(width),
                s.name.c_str(), kindText(s.transcript).c_str(),
                ratioText(s.transcript).c_str(), verdict.c_str());
  }
  std::printf("\n");
}

// A field of a CSV file. What a spreadsheet would take for a formula gets an
// apostrophe in front.
std::string csvField(const std::string& text) {
  std::string field = "\"";
  if (!text.empty() && std::strchr("=+-@", text[0])) field += '\'';
  for (const char c : text) {
    if (c == '"') field += '"';
    field += c;
  }
  return field + '"';
}

void printCsvHead() {
  std::printf(
      "submission,kind,verdict,passed,failed,skipped,first_failure,line,why,"
      "gpu,date,seed,predicted,measured,pipeline_percent,explanation\n");
}
void printCsv(const Submission& s) {
  const Transcript& t = s.transcript;
  const Criterion* first = s.report.firstFailure();
  const bool gate = t.isGate();
  const std::string fields[] = {
      s.name,
      kindText(t),
      s.report.passed() ? "pass" : "FAIL",
      format("%zu", s.report.count(Verdict::kPass)),
      format("%zu", s.report.count(Verdict::kFail)),
      format("%zu", s.report.count(Verdict::kSkip)),
      first ? first->name : "",
      first && first->line ? format("%zu", first->line) : "",
      first ? first->text : "",
      t[kGpu][0].text,
      t[kDate][0].text,
      t[kSeed][0].text,
      gate ? t[kRatio][0].text : "",
      gate ? t[kRatio][1].text : "",
      t[kShare][0].text,
      gate ? t[kExplanation][0].text : ""};
  for (const std::string& field : fields) {
    std::printf("%s%s", &field == fields ? "" : ",", csvField(field).c_str());
  }
  std::printf("\n");
}

// =================================================================== the chart

std::string xmlText(Text text) {
  std::string out;
  for (const char c : text) {
    if (c == '&') {
      out += "&amp;";
    } else if (c == '<') {
      out += "&lt;";
    } else if (c == '>') {
      out += "&gt;";
    } else {
      const unsigned char byte = static_cast<unsigned char>(c);
      out += byte < 0x80 ? c : '?';
    }
  }
  return out;
}

// The rows as bars of GB/s, the copies as lines across them. Light and dark.
std::string chartOf(const Transcript& t) {
  constexpr double kLeft = 250, kWidth = 400, kTop = 92, kStep = 26;
  const TableRow* best = nullptr;
  double most = 0.0;
  for (const TableRow& row : t.rows) {
    if (row.bytes == 0) continue;
    most = std::max(most, row.rate.value);
    if (startsWith(row.label, "copy") &&
        (!best || row.rate.value > best->rate.value)) {
      best = &row;
    }
  }
  if (most == 0.0) return "";
  const TableRow* plain = t.row("copy (the baseline)");
  const double bottom = kTop + kStep * static_cast<double>(t.rows.size());
  const auto at = [&](double rate) { return kLeft + kWidth * rate / most; };
  std::string svg = format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 860 %.0f\" "
      "width=\"860\" height=\"%.0f\" role=\"img\">\n"
      "<title>GB/s of each stage beside the copy</title>\n",
      bottom + 36, bottom + 36);
  svg +=
      "<style>\n"
      "  text { font: 13px system-ui, sans-serif; fill: #1f2328; }\n"
      "  .head { font-size: 17px; font-weight: 600; }\n"
      "  .dim { fill: #59636e; }\n"
      "  .end { text-anchor: end; }\n"
      "  .paper { fill: #ffffff; }\n"
      "  .stage { fill: #2f6fce; }\n"
      "  .copy { fill: #8c959f; }\n"
      "  .gate { fill: #1a7f37; }\n"
      "  line { stroke: #59636e; stroke-dasharray: 4 3; }\n"
      "  @media (prefers-color-scheme: dark) {\n"
      "    text { fill: #e6edf3; }\n"
      "    .dim { fill: #9198a1; }\n"
      "    .paper { fill: #0d1117; }\n"
      "    .stage { fill: #4c8df6; }\n"
      "    .copy { fill: #6e7681; }\n"
      "    .gate { fill: #3fb950; }\n"
      "    line { stroke: #9198a1; }\n"
      "  }\n"
      "</style>\n"
      "<rect class=\"paper\" width=\"100%\" height=\"100%\"/>\n"
      "<text class=\"head\" x=\"16\" y=\"30\">GB/s of each stage beside the "
      "copy</text>\n";
  svg +=
      "<text class=\"dim\" x=\"16\" y=\"52\">" +
      xmlText(t[kGpu][0].text + ", " + t[kDate][0].text + " UTC, 4096 x 4096") +
      "</text>\n";
  double y = kTop;
  for (const TableRow& row : t.rows) {
    const char* kind = startsWith(row.label, "copy") ? "copy" : "stage";
    if (row.label == kTwoKernelRow) kind = "gate";
    svg += format("<text class=\"end\" x=\"%.0f\" y=\"%.0f\">%s</text>\n",
                  kLeft - 10, y + 13, xmlText(Text(row.label).substr(0, 40)));
    if (row.bytes == 0) {
      svg += format(
          "<text class=\"dim\" x=\"%.0f\" y=\"%.0f\">no bandwidth: "
          "%s ms</text>\n",
          kLeft + 6, y + 13, row.ms.text.c_str());
    } else {
      svg += format(
          "<rect class=\"%s\" x=\"%.0f\" y=\"%.0f\" width=\"%.1f\" "
          "height=\"18\" rx=\"2\"/>\n",
          kind, kLeft, y, at(row.rate.value) - kLeft);
      svg += format(
          "<text class=\"end\" x=\"844\" y=\"%.0f\">%s GB/s, %s x "
          "copy</text>\n",
          y + 13, row.rate.text.c_str(), row.copy.text.c_str());
    }
    y += kStep;
  }
  const auto mark = [&](const TableRow* row, const char* name, double textY) {
    const double x = at(row->rate.value);
    svg += format("<line x1=\"%.1f\" y1=\"%.0f\" x2=\"%.1f\" y2=\"%.0f\"/>\n",
                  x, kTop - 8, x, bottom);
    svg += format(
        "<text class=\"dim\" text-anchor=\"middle\" x=\"%.1f\" "
        "y=\"%.0f\">%s</text>\n",
        x, textY, name);
  };
  if (plain && plain->bytes != 0) mark(plain, "the copy", kTop - 14);
  if (best && best != plain) mark(best, "the best copy", bottom + 18);
  return svg + "</svg>\n";
}

// ============================================== what a student's file may hold

std::string readFile(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

// FNV-1a, 64 bits, without carriage returns: as the lesson prints it. "" where
// the file cannot be read.
std::string hashOfFile(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return "";
  uint64_t hash = 14695981039346656037ull;
  for (int c = in.get(); c != EOF; c = in.get()) {
    if (c != '\r') hash = (hash ^ static_cast<uint64_t>(c)) * 1099511628211ull;
  }
  return format("%016llx", static_cast<unsigned long long>(hash));
}

struct SourceLine {
  size_t number;
  std::string text;
};

// A source file taken apart at its markers. Carriage returns and blanks at the
// end of a line are left out.
struct Source {
  std::vector<SourceLine> outside;               // the markers with it
  std::vector<std::vector<SourceLine>> regions;  // between the markers
};

Source takeApart(const std::string& text) {
  Source source;
  bool inside = false;
  std::istringstream in(text);
  std::string line;
  for (size_t number = 1; std::getline(in, line); ++number) {
    line.erase(line.find_last_not_of("\r \t") + 1);
    const Text words =
        Text(line).substr(std::min(line.size(), line.find_first_not_of(" \t")));
    if (startsWith(words, "// end TODO")) inside = false;
    (inside ? source.regions.back() : source.outside).push_back({number, line});
    if (startsWith(words, "// TODO(you)")) {
      inside = true;
      source.regions.emplace_back();
    }
  }
  return source;
}

// A line that must not be so, and why; no reason: all is well.
struct Blame {
  size_t line = 0;
  std::string why;
};

// The first line outside the markers that is not as given.
Blame compareOutside(const Source& own, const Source& student) {
  for (size_t i = 0; i < student.outside.size(); ++i) {
    const SourceLine& got = student.outside[i];
    const Text want = i < own.outside.size() ? Text(own.outside[i].text) : "";
    if (i < own.outside.size() && got.text == want) continue;
    return {got.number, format("%s, given was %s: only what lies between TODO "
                               "and end TODO may change",
                               inQuotes(got.text), inQuotes(want))};
  }
  if (student.outside.size() == own.outside.size()) return {};
  return {0, "the file lacks its end, from " +
                 inQuotes(own.outside[student.outside.size()].text)};
}

struct Token {
  enum Kind { kWord, kNumber, kString, kSign } kind;
  std::string text;
  size_t line;
};

// The tokens of a region, or what in it is no part of simple code.
Blame tokensOf(const std::vector<SourceLine>& region,
               std::vector<Token>* tokens) {
  const auto isWord = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '_';
  };
  const auto isDigit = [](char c) { return c >= '0' && c <= '9'; };
  size_t comment = 0;  // the line of an open /*
  for (const auto& [number, line] : region) {
    if (endsWith(line, "\\")) return {number, "a backslash ends the line"};
    for (size_t i = 0, end = 0; i < line.size(); i = end) {
      const Text rest = Text(line).substr(i);
      const char c = line[i];
      end = i + 1;
      if (comment != 0) {
        if (!startsWith(rest, "*/")) continue;
        comment = 0;
        end = i + 2;
      } else if (startsWith(rest, "//")) {
        break;
      } else if (startsWith(rest, "/*")) {
        comment = number;
        end = i + 2;
      } else if (c == '"') {
        for (; end < line.size() && line[end] != '"'; ++end) {
          if (line[end] == '\\' && !std::strchr("\"\\", line[++end])) {
            return {number, "an escape sequence in a text"};
          }
        }
        if (end++ >= line.size()) return {number, "an open text"};
        if (i > 0 && isWord(line[i - 1])) {
          return {number, "a text with a prefix"};
        }
        tokens->push_back({Token::kString, line.substr(i, end - i), number});
      } else if (isWord(c)) {
        const bool digit = isDigit(c);
        while (end < line.size() &&
               (isWord(line[end]) ||
                (digit && (line[end] == '.' || line[end] == '\'')))) {
          ++end;
        }
        tokens->push_back({digit ? Token::kNumber : Token::kWord,
                           line.substr(i, end - i), number});
      } else if (c != ' ' && c != '\t') {
        for (const char* sign : {"#", "%:", "??", "\\", "'", "$", "@", "`"}) {
          if (!startsWith(rest, sign)) continue;
          return {number, format("the sign %s, of no use here", sign)};
        }
        if (startsWith(rest, "::")) end = i + 2;
        tokens->push_back({Token::kSign, line.substr(i, end - i), number});
      }
    }
  }
  if (comment != 0) return {comment, "a comment that is not closed"};
  return {};
}

// Whether a word is among those of a list with a blank on each side.
bool isAmong(const char* list, const std::string& word) {
  return std::strstr(list, (" " + word + " ").c_str()) != nullptr;
}

// The predictions may be the five constants and nothing else.
Blame inspectPredictions(const std::vector<Token>& tokens) {
  for (size_t i = 0; i < tokens.size(); ++i) {
    const Token& token = tokens[i];
    bool fine = true;
    if (i == 0 || tokens[i - 1].text == ";") {
      fine = token.text == "constexpr";
    } else if (token.kind == Token::kWord) {
      fine = isAmong(
          " const int double char Answer kNo kYes kUnanswered kPredictedLoads "
          "kPredictedTraffic kPredictedPadding kPredictedTime kExplanation ",
          token.text);
    } else if (token.kind == Token::kSign) {
      fine = std::strchr("=;*/+-().", token.text[0]) != nullptr;
    }
    if (!fine) return {token.line, token.text + " is no part of a prediction"};
  }
  return {};
}

// Words that a kernel has no use for, and a forger has.
constexpr const char* kForbidden =
    " asm extern static template typename using namespace operator class "
    "struct union friend throw try catch goto new delete std main "
    "printf fprintf sprintf snprintf vprintf vfprintf vsnprintf dprintf puts "
    "fputs putc fputc putchar perror fwrite write writev fopen freopen fdopen "
    "fclose open openat creat close dup dup2 pipe fflush setbuf setvbuf stdout "
    "stderr stdin remove rename unlink link symlink truncate mkdir rmdir chdir "
    "chmod system popen fork vfork clone execl execlp execle execv execvp "
    "execve posix_spawn kill raise signal sigaction abort exit _exit _Exit "
    "quick_exit atexit getenv setenv putenv unsetenv environ syscall mmap "
    "mprotect dlopen dlsym setjmp longjmp alarm sleep usleep nanosleep "
    "lessonMain lessonStages runLesson runCase printHeader printTable "
    "printRatios judgeTable reportFailure progress findRow blurReference "
    "sobelReference thresholdReference kExplanation ";

// A kernel must stay inside its braces and away from those words.
Blame inspectKernel(const std::vector<Token>& tokens) {
  int depth = 0;
  for (const Token& token : tokens) {
    const std::string& text = token.text;
    const bool reserved =
        token.kind == Token::kWord &&
        (isAmong(kForbidden, text) || startsWith(text, "cuda") ||
         startsWith(text, "__asm") || startsWith(text, "__builtin") ||
         startsWith(text, "__attribute"));
    if (reserved || text == "::" || token.kind == Token::kString) {
      return {token.line, text + " is of no use in this kernel"};
    }
    depth += text == "{" ? 1 : text == "}" ? -1 : 0;
    if (depth < 0) return {token.line, "the kernel ends before its end TODO"};
  }
  if (depth == 0) return {};
  return {tokens.back().line, "a brace is left open at end TODO"};
}

Blame inspect(const Source& student) {
  Blame found;
  for (size_t i = 0; i < student.regions.size() && found.why.empty(); ++i) {
    std::vector<Token> tokens;
    found = tokensOf(student.regions[i], &tokens);
    if (!found.why.empty()) break;
    found = i == 0 ? inspectPredictions(tokens) : inspectKernel(tokens);
  }
  return found;
}

// ==================================================== running a student's file

#ifndef _WIN32

constexpr size_t kOutputCap = 1 << 20;

// How a command ended, and what it said on either stream.
struct Ran {
  int code = 0;  // exit code, or 128 + signal
  bool late = false, flooded = false;
  std::string output;

  bool passed() const { return code == 0 && !late && !flooded; }
  std::string ending(int limit) const {
    if (late) return format("stopped after %d s", limit);
    if (flooded)
      return format("stopped after it printed %zu bytes", kOutputCap);
    if (code > 128) return format("crashed, signal %d", code - 128);
    return format("exit code %d", code);
  }
};

// Runs a command in a folder, in a process group of its own that ends with it,
// for at most `limit` seconds; its output is captured.
Ran runCommand(const std::vector<std::string>& words, const fs::path& folder,
               int limit) {
  Ran ran;
  std::vector<char*> argv;
  for (const std::string& word : words) {
    argv.push_back(const_cast<char*>(word.c_str()));
  }
  argv.push_back(nullptr);
  int ends[2];
  if (pipe(ends) != 0) return {127, false, false, "no pipe"};
  std::fflush(nullptr);
  const pid_t pid = fork();
  if (pid < 0) {
    close(ends[0]);
    close(ends[1]);
    return {127, false, false, "no process"};
  }
  if (pid == 0) {
    setsid();
    const int null = open("/dev/null", O_RDONLY);
    const rlimit files = {1 << 28, 1 << 28}, cores = {0, 0};
    setrlimit(RLIMIT_FSIZE, &files);
    setrlimit(RLIMIT_CORE, &cores);
    if (null < 0 || dup2(null, 0) < 0 || dup2(ends[1], 1) < 0 ||
        dup2(ends[1], 2) < 0 || chdir(folder.c_str()) != 0) {
      _exit(127);
    }
    close(ends[0]);
    close(ends[1]);
    execvp(argv[0], argv.data());
    _exit(127);
  }
  close(ends[1]);
  fcntl(ends[0], F_SETFL, O_NONBLOCK);
  const auto end =
      std::chrono::steady_clock::now() + std::chrono::seconds(limit);
  int status = 0;
  bool ended = false;
  std::vector<char> buffer(1 << 16);
  while (true) {
    pollfd ready = {ends[0], POLLIN, 0};
    poll(&ready, 1, ended ? 0 : 50);
    const ssize_t got = read(ends[0], buffer.data(), buffer.size());
    if (got > 0) ran.output.append(buffer.data(), static_cast<size_t>(got));
    ran.flooded = ran.output.size() > kOutputCap;
    ran.late = !ended && std::chrono::steady_clock::now() >= end;
    if (ran.flooded || ran.late) break;
    if (got > 0) continue;
    if (ended) break;  // its pipe is drained
    ended = waitpid(pid, &status, WNOHANG) == pid;
    if (got == 0 && !ended) poll(nullptr, 0, 20);  // it closed its output
  }
  kill(-pid, SIGKILL);
  if (!ended) waitpid(pid, &status, 0);
  close(ends[0]);
  ran.output.resize(std::min(ran.output.size(), kOutputCap));
  ran.code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  return ran;
}

// A folder that goes when this does.
struct TempFolder {
  fs::path path;
  TempFolder() {
    std::string name = (fs::temp_directory_path() / "grade.XXXXXX").string();
    if (mkdtemp(name.data())) path = name;
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  ~TempFolder() {
    std::error_code ignored;
    if (!path.empty()) fs::remove_all(path, ignored);
  }
};

// The first line that tells what is wrong, cleaned for printing.
std::string firstError(const std::string& output) {
  std::istringstream in(output);
  std::string line, found;
  while (std::getline(in, line)) {
    if (line.empty()) continue;
    if (found.empty() || line.find("error") != std::string::npos) found = line;
    if (line.find("error") != std::string::npos) break;
  }
  for (char& c : found) c = static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  return found.substr(0, 300);
}

Transcript transcriptOf(const std::string& output) {
  Transcript t;
  Reader reader(&t);
  reader.feed(output.data(), output.size());
  reader.finish();
  return t;
}

struct Rerun {
  fs::path lesson;   // the grader's own convolution.cu
  bool gpu = true;   // use one if there is one
  int limit = 300;   // seconds for a build, and for a run
  std::string keep;  // the file that gets what the run printed
};

// The grader's own program without a stage: it prints what the references are.
constexpr const char* kReferencesSource =
    "#define DAY20_EXERCISE\n"
    "#include \"../convolution.cu\"\n"
    "int main(int argc, char** argv) {\n"
    "  printf(\"stages: %zu\\n\", lessonStages().size());\n"
    "  return lessonMain(argc, argv, {\"day20 references\", {}, {}, "
    "nullptr});\n"
    "}\n";

// Builds the student's file against the grader's own convolution.cu, runs it
// with a fresh seed and grades that run. Returns what prevented it, or "".
std::string rerun(const fs::path& file, const Rerun& how, Demands demands,
                  Submission* submission) {
  Report& report = submission->report;
  const auto judged = [&](const char* name, const Blame& blame,
                          const std::string& good) {
    Check check(report, name);
    if (!blame.why.empty()) check.wrong(0, "%s", blame.why);
    return check.end(0, "%s", good);
  };
  const auto atLine = [](Blame blame) {
    if (blame.line != 0) {
      blame.why = format("its line %zu: %s", blame.line, blame.why);
    }
    return blame;
  };
  const fs::path exercises = how.lesson.parent_path() / "exercises";
  const Source own = takeApart(readFile(exercises / "two_pass.cu"));
  const Source student = takeApart(readFile(file));
  if (own.regions.empty()) return "there is no two_pass.cu to compare with";
  if (!judged("outside the markers", atLine(compareOutside(own, student)),
              "as given") ||
      !judged("inside the markers", atLine(inspect(student)),
              "nothing suspicious: a tripwire, no proof; read the file")) {
    return "";
  }

  const TempFolder temp;
  const fs::path folder = temp.path / "exercises";
  std::error_code error;
  if (temp.path.empty()) return "there is no folder to build in";
  fs::create_directory(folder, error);
  if (!error) fs::copy_file(how.lesson, temp.path / "convolution.cu", error);
  if (!error) fs::copy_file(file, folder / "two_pass.cu", error);
  if (error) return "cannot copy to " + folder.string();
  std::ofstream(folder / "references.cu") << kReferencesSource;
  const bool gpu = how.gpu &&
                   runCommand({"nvidia-smi", "-L"}, folder, 60).passed() &&
                   runCommand({"nvcc", "--version"}, folder, 60).passed();
  const auto build = [&](const std::string& name) {
    std::vector<std::string> words = {"nvcc"};
    if (!gpu) words = {"sh", fs::absolute(exercises / "no-gpu/nvcc").string()};
    words.insert(words.end(), {"-std=c++17", "-O3", "-arch=sm_75", "-o", name,
                               "exercises/" + name + ".cu"});
    return runCommand(words, temp.path, how.limit);
  };
  const auto said = [&](const Ran& ran) {
    return ran.ending(how.limit) + ": " + firstError(ran.output);
  };

  // The grader's own first, while nobody else has been in the folder.
  const std::string seed = std::to_string(std::random_device()() & 0xFFFFFFFFu);
  Ran ran = build("references");
  if (ran.passed()) {
    ran = runCommand({"./references", "--no-timing", "--seed", seed}, temp.path,
                     how.limit);
  }
  const Transcript references = transcriptOf(ran.output);
  if (!ran.passed() || !references[kPerf].sound) {
    return "the grader's own convolution.cu does not build and run, " +
           said(ran);
  }
  const size_t at = ran.output.find("stages: ");
  const uint64_t stages = std::strtoull(&ran.output[at + 8], nullptr, 10);
  judged("the grader's own run", {},
         (gpu ? "on the GPU, seed " : "without a GPU, seed ") + seed);

  ran = build("two_pass");
  if (!judged("compiles", {0, ran.passed() ? "" : said(ran)},
              "against the grader's own convolution.cu")) {
    return "";
  }
  ran = runCommand({"./two_pass", "--seed", seed}, temp.path, how.limit);
  submission->transcript = transcriptOf(ran.output);
  if (!how.keep.empty() &&
      !(std::ofstream(how.keep, std::ios::binary) << ran.output).flush()) {
    return how.keep + ": cannot be written";
  }
  judged("runs", {0, ran.passed() ? "" : ran.ending(how.limit)}, "exit code 0");
  demands.program = "two_pass";
  demands.timing = demands.timing && gpu;
  demands.seed = seed;
  demands.references = &references;
  demands.stages = stages + 1;
  demands.studentHash = hashOfFile(file);
  for (Criterion& c : judge(submission->transcript, demands).criteria) {
    report.criteria.push_back(std::move(c));
  }
  return "";
}

#endif

// ======================================================================== main

void printUsage(std::FILE* stream, const char* program) {
  std::fprintf(
      stream,
      "usage: %s [options] TRANSCRIPT|FOLDER|- ...\n"
      "       %s [options] --rerun STUDENT.cu [TRANSCRIPT]\n"
      "\n"
      "Grades transcripts of ./convolution (the lesson) and ./two_pass (the "
      "gate): a\nline a criterion, with the transcript's line. - is standard "
      "input; of a folder,\nall .txt and .log files.\n"
      "\n"
      "  --gate, --lesson      nothing but transcripts of this kind\n"
      "  --no-timing-gate      correctness only: no GPU timings is no failure\n"
      "  --seed N              the run must have had this seed\n"
      "  --csv                 a line a submission, for a spreadsheet\n"
      "  --chart FILE.svg      draw the rows of the one transcript\n"
      "  --rerun STUDENT.cu    build this two_pass.cu against the grader's "
      "own\n"
      "                        convolution.cu, run it with a fresh seed, and "
      "grade that;\n"
      "                        a TRANSCRIPT beside it must come from this "
      "file\n"
      "  --keep FILE           of a rerun: write what it printed there\n"
      "  --no-gpu              rerun without a GPU even where there is one\n"
      "  --limit SECONDS       for each build and each run of a rerun, 300\n"
      "  --lesson-source FILE  the grader's own convolution.cu\n"
      "  --help\n"
      "\n"
      "exit code: 0 all pass, 1 some fail, 2 usage or unreadable input\n",
      program, program);
}

struct Options {
  bool csv = false, help = false;
  std::string chart, student, lesson;
  std::vector<std::string> inputs;
  Demands demands;
#ifndef _WIN32
  Rerun rerun;
#endif
};

// Fills in the options. Returns what is wrong with the command line, or "".
std::string parseOptions(int argc, char** argv, Options* options) {
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const bool takesValue = word == "--seed" || word == "--chart" ||
                            word == "--rerun" || word == "--limit" ||
                            word == "--keep" || word == "--lesson-source";
    if (takesValue && i + 1 == argc) return word + " needs a value";
    const std::string value = takesValue ? argv[++i] : "";
    std::vector<Figure> number;
    const bool whole = match(value, "%u", &number);
    if (word == "--help" || word == "-h") {
      options->help = true;
    } else if (word == "--csv") {
      options->csv = true;
    } else if (word == "--gate") {
      options->demands.program = "two_pass";
    } else if (word == "--lesson") {
      options->demands.program = "image convolution";
    } else if (word == "--no-timing-gate") {
      options->demands.timing = false;
    } else if (word == "--seed") {
      if (!whole) return "--seed " + value + ": not a whole number";
      options->demands.seed = value;
    } else if (word == "--chart") {
      options->chart = value;
    } else if (word == "--rerun") {
      options->student = value;
    } else if (word == "--lesson-source") {
      options->lesson = value;
    } else if (word == "--limit") {
      if (!whole || number[0].value < 1 || number[0].value > 86400) {
        return "--limit " + value + ": not 1 to 86400 seconds";
      }
#ifndef _WIN32
      options->rerun.limit = static_cast<int>(number[0].value);
#endif
    } else if (word == "--keep") {
#ifndef _WIN32
      options->rerun.keep = value;
#endif
    } else if (word == "--no-gpu") {
#ifndef _WIN32
      options->rerun.gpu = false;
#endif
    } else if (word.size() > 1 && word[0] == '-') {
      return "unknown option " + word;
    } else {
      options->inputs.push_back(word);
    }
  }
  if (options->inputs.empty() && options->student.empty()) {
    return "no transcript given";
  }
  return "";
}

// The transcripts named on the command line, folders opened. Returns an error.
std::string findInputs(const std::vector<std::string>& named,
                       std::vector<std::string>* found) {
  for (const std::string& name : named) {
    std::error_code error;
    if (name == "-" || !fs::is_directory(name, error)) {
      found->push_back(name);
      continue;
    }
    const size_t before = found->size();
    for (fs::recursive_directory_iterator at(name, error), end;
         !error && at != end; at.increment(error)) {
      const std::string extension = at->path().extension().string();
      if (at->is_regular_file() &&
          (extension == ".txt" || extension == ".log")) {
        found->push_back(at->path().string());
      }
    }
    if (error) return name + ": " + error.message();
    if (found->size() == before) return name + ": holds no .txt or .log file";
    std::sort(found->begin() + static_cast<std::ptrdiff_t>(before),
              found->end());
  }
  return "";
}

int main(int argc, char** argv) {
  constexpr int kPass = 0, kFail = 1, kUsage = 2;
  Options options;
  const std::string wrong = parseOptions(argc, argv, &options);
  if (options.help) {
    printUsage(stdout, argv[0]);
    return kPass;
  }
  const auto complain = [&](const std::string& text) {
    std::fprintf(stderr, "%s: %s\n", argv[0], text.c_str());
    return kUsage;
  };
  if (!wrong.empty()) {
    complain(wrong);
    printUsage(stderr, argv[0]);
    return kUsage;
  }

  // Its own convolution.cu lies one folder above this source file.
  fs::path lesson = options.lesson;
  if (lesson.empty()) {
    lesson = fs::path(__FILE__).parent_path() / ".." / "convolution.cu";
  }
  Demands demands = options.demands;
  demands.lessonHash = hashOfFile(lesson);
  if (demands.lessonHash.empty()) {
    return complain(lesson.string() +
                    ": the grader's own convolution.cu is "
                    "not there; --lesson-source FILE names "
                    "it");
  }
  demands.solutionHash =
      hashOfFile(lesson.parent_path() / "solutions" / "two_pass.cu");
  std::vector<std::string> inputs;
  const std::string missing = findInputs(options.inputs, &inputs);
  if (!missing.empty()) return complain(missing);
  if (!options.chart.empty() && inputs.size() != 1) {
    return complain("--chart draws one transcript");
  }
  if (!options.student.empty()) {
    if (inputs.size() > 1) return complain("--rerun goes with one transcript");
    demands.studentHash = hashOfFile(options.student);
    if (demands.studentHash.empty()) {
      return complain(options.student + ": cannot be read");
    }
  }

  int exit = kPass;
  std::vector<Submission> all;
  const auto tell = [&](Submission& s) {
    if (!s.report.passed() && exit == kPass) exit = kFail;
    if (options.csv) {
      printCsv(s);
    } else {
      printReport(s);
    }
    all.push_back(std::move(s));
  };
  if (options.csv) printCsvHead();
  for (const std::string& name : inputs) {
    Submission s;
    s.name = name == "-" ? "standard input" : name;
    std::error_code ignored;
    std::FILE* file = name == "-" ? stdin : std::fopen(name.c_str(), "rb");
    const bool read = file && readTranscript(file, &s.transcript);
    if (file && file != stdin) std::fclose(file);
    if (!read) {
      exit = complain(name + ": cannot be read");
      continue;
    }
    s.report = judge(s.transcript, demands);
    if (!options.chart.empty()) {
      const std::string svg = chartOf(s.transcript);
      if (svg.empty()) return complain(name + ": no rows to draw");
      std::ofstream out(options.chart, std::ios::binary);
      if (!(out << svg).flush()) {
        return complain(options.chart + ": cannot be written");
      }
    }
    tell(s);
  }
  if (!options.student.empty()) {
#ifdef _WIN32
    return complain("--rerun needs Linux, macOS or WSL");
#else
    std::fprintf(stderr,
                 "%s: --rerun builds and runs the student's code with your "
                 "rights: do it in a container or a throw-away account\n",
                 argv[0]);
    Submission s;
    s.name = options.student + ", run here";
    options.rerun.lesson = lesson;
    const std::string prevented =
        rerun(options.student, options.rerun, demands, &s);
    if (!prevented.empty()) return complain(prevented);
    tell(s);
#endif
  }
  if (!options.csv) {
    if (all.size() > 1) printSummary(all);
    if (options.student.empty()) {
      std::printf(
          "A transcript proves nothing by itself: it is text. --rerun builds "
          "and runs the file.\n");
    }
  }
  return exit;
}
