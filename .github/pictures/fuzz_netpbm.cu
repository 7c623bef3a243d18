// Feeds the Netpbm reader of convolution.cu whatever libFuzzer invents, once
// as a file of known size and once as a stream, and stops at a crash, a hang, a
// wrong answer or an allocation out of proportion to the input. From the
// repository root, with clang:
//
//   perl .github/pictures/cases.pl files corpus
//   CXX=clang++ sh exercises/no-gpu/nvcc -std=c++17 -O1 -arch=sm_75
//     -fsanitize=fuzzer,address,undefined
//     -o fuzz_netpbm .github/pictures/fuzz_netpbm.cu
//   ./fuzz_netpbm -max_len=8192 -timeout=5 -max_total_time=1200 corpus
//
// SPDX-License-Identifier: MIT
#define DAY20_EXERCISE
#include "../../convolution.cu"

#include <cstdlib>
#include <memory>
#include <sanitizer/allocator_interface.h>

static size_t g_allowed = SIZE_MAX;  // bytes that one allocation may take

static void onMalloc(const volatile void*, size_t bytes) {
  if (bytes > g_allowed) {
    std::fprintf(stderr, "%zu bytes allocated at once\n", bytes);
    std::abort();
  }
}
static void onFree(const volatile void*) {}

static void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "does not hold: %s\n", what);
  std::abort();
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const int hooked =
      __sanitizer_install_malloc_and_free_hooks(onMalloc, onFree);
  require(hooked > 0, "the allocation hook is installed");
  if (size == 0) return 0;  // fmemopen refuses it

  std::string reason[2];
  Netpbm images[2];
  // A block of the reader's, 256 KiB, and the growth of a vector are constant.
  g_allowed = 4 * size + (1 << 20);
  for (int stream = 0; stream < 2; ++stream) {
    std::FILE* file = fmemopen(const_cast<uint8_t*>(data), size, "rb");
    require(file != nullptr, "fmemopen");
    ByteReader in(file, stream ? ByteReader::kStream : size);
    std::string note;
    reason[stream] = readNetpbm(in, images[stream], note);
    std::fclose(file);
  }
  g_allowed = SIZE_MAX;
  require(reason[0].empty() == reason[1].empty(), "file and stream agree");
  if (!reason[0].empty()) return 0;

  const Netpbm& image = images[0];
  require(image.raster == images[1].raster, "file and stream are equal");
  require(image.rows > 0 && image.cols > 0, "there are pixels");
  require(image.maxval >= 1 && image.maxval <= 65535, "maxval is in range");
  require(image.raster.size() == image.samples() * image.bytesPerSample(),
          "the raster is whole");
  const size_t pixels = image.rows * image.cols;
  std::unique_ptr<float[]> h_grey(new float[pixels]);
  greyFromNetpbm(image, h_grey.get());
  for (size_t i = 0; i < pixels; ++i) {
    require(h_grey[i] >= 0 && h_grey[i] <= 1, "grey lies in 0 to 1");
  }
  return 0;
}
