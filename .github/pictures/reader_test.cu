// Reads every file of cases.pl with the reader of convolution.cu, once as a
// file and once as a stream: the verdict and its words, every grey pixel to the
// last bit, and no allocation out of proportion to the file. Then writes
// pictures and reads them back. Prints what is wrong; exit 1 if anything is.
// From the repository root:
//
//   perl .github/pictures/cases.pl list cases
//   sh exercises/no-gpu/nvcc -std=c++17 -O1 -arch=sm_75 -o reader_test
//     .github/pictures/reader_test.cu
//   ./reader_test cases
//
// SPDX-License-Identifier: MIT
#define DAY20_EXERCISE
#include "../../convolution.cu"

#include <cstdlib>
#include <fstream>
#include <new>
#include <sstream>
#include <string>
#include <vector>

static size_t g_largest = 0;  // bytes of the largest allocation

void* operator new(size_t bytes) {
  g_largest = std::max(g_largest, bytes);
  if (void* memory = std::malloc(bytes > 0 ? bytes : 1)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, size_t) noexcept {
  std::free(memory);
}

static int g_wrong = 0;

static void wrong(const std::string& name, const std::string& what) {
  std::printf("%s: %s\n", name.c_str(), what.c_str());
  ++g_wrong;
}

// One line of the list: name, exit code, words, threshold, grey pixels.
struct Expected {
  std::string name, exit, words, threshold, pixels;
};

// All words, which " && " joins, of which the program says "rows x cols" and
// the result itself.
static void checkWords(const Expected& want, const std::string& said) {
  std::string words = want.words + " && ";
  for (size_t end; (end = words.find(" && ")) != std::string::npos;) {
    const std::string word = words.substr(0, end);
    words.erase(0, end + 4);
    if (word == "result: pass" || word.find(" cols") != std::string::npos) {
      continue;
    }
    if (said.find(word) == std::string::npos) {
      wrong(want.name, "said \"" + said + "\", which lacks \"" + word + "\"");
    }
  }
}

static void checkPixels(const Expected& want, const Netpbm& image) {
  const size_t pixels = image.rows * image.cols;
  std::vector<float> grey(pixels, -1.0f);
  greyFromNetpbm(image, grey.data());
  std::istringstream list(want.pixels);
  std::string number;
  size_t i = 0;
  for (; list >> number; ++i) {
    const float value = std::strtof(number.c_str(), nullptr);
    if (i < pixels && grey[i] != value) {
      wrong(want.name, "pixel " + std::to_string(i) + " is " +
                           std::to_string(grey[i]) + ", want " + number);
    }
  }
  if (i != pixels)
    wrong(want.name, "has " + std::to_string(pixels) + " pixels");
}

static void checkFile(const std::string& folder, const Expected& want) {
  const std::string path = folder + "/" + want.name;
  Netpbm image;
  std::string note;
  g_largest = 0;
  const std::string error = readNetpbm(path, image, note);
  const std::uintmax_t size = std::filesystem::file_size(path);
  if (g_largest > 4 * size + (1 << 18)) {  // a stdio buffer is constant
    wrong(want.name, std::to_string(g_largest) + " bytes allocated at once");
  }
  if (error.empty() != (want.exit == "0")) {
    return wrong(want.name, error.empty() ? "was read" : error);
  }
  checkWords(want, error + note);
  if (error.empty()) checkPixels(want, image);

  // A stream tells its size only at its end.
  std::FILE* file = std::fopen(path.c_str(), "rb");
  ByteReader in(file, ByteReader::kStream);
  Netpbm again;
  std::string streamNote;
  const std::string streamError = readNetpbm(in, again, streamNote);
  std::fclose(file);
  if (streamError.empty() != error.empty()) {
    return wrong(want.name, "as a stream: " + streamError);
  }
  if (error.empty()) checkPixels(want, again);
  const bool counted = note.find(" left over") != std::string::npos;
  if (streamNote !=
      (counted ? "what is left over after the raster is ignored" : note)) {
    wrong(want.name, "as a stream, the note is \"" + streamNote + "\"");
  }
}

// Pictures of many sizes, written and read back: equal to the last byte.
static void checkRoundTrip(const std::string& path, int channels) {
  for (const size_t rows : {1, 2, 7, 300}) {
    for (const size_t cols : {1, 3, 64, 1001}) {
      std::vector<unsigned char> samples(rows * cols * channels);
      for (size_t i = 0; i < samples.size(); ++i) {
        samples[i] = static_cast<unsigned char>(i * i / 3 + i);
      }
      const std::string name = std::to_string(rows) + " x " +
                               std::to_string(cols) + " x " +
                               std::to_string(channels);
      std::string note;
      std::string error =
          writeNetpbm(path, samples.data(), rows, cols, channels);
      Netpbm image;
      if (error.empty()) error = readNetpbm(path, image, note);
      if (!error.empty() || !note.empty()) wrong(name, error + note);
      if (image.rows != rows || image.cols != cols ||
          image.channels != channels || image.maxval != 255 ||
          image.raster != samples) {
        wrong(name, "came back different");
      }
    }
  }
  std::filesystem::remove(path);
}

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s FOLDER, as cases.pl list makes it\n",
                 argv[0]);
    return 2;
  }
  const std::string folder = argv[1];
  std::ifstream list(folder + ".list");
  size_t files = 0;
  std::string line;
  for (; std::getline(list, line); ++files) {
    std::istringstream fields(line);
    Expected want;
    std::getline(fields, want.name, '\t');
    std::getline(fields, want.exit, '\t');
    std::getline(fields, want.words, '\t');
    std::getline(fields, want.threshold, '\t');
    std::getline(fields, want.pixels, '\t');
    checkFile(folder, want);
  }
  if (files < 100) wrong(folder + ".list", "lists too few files");
  checkRoundTrip(folder + "/round_trip", 1);
  checkRoundTrip(folder + "/round_trip", 3);
  std::printf("%zu files read, %d faults\n", files, g_wrong);
  return g_wrong == 0 ? 0 : 1;
}
