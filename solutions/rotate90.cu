// Exercise: turn a picture by 90 degrees, clockwise or to the left, and see
// what a program costs that computes nothing and only moves.
//
// Build:  nvcc -std=c++17 -O3 -arch=sm_75 -o rotate90 exercises/rotate90.cu
// Run:    ./rotate90                              every case, then the tables
//         ./rotate90 IMAGE.ppm -o OUT.ppm         your own picture, clockwise
//         ./rotate90 IMAGE.ppm -o OUT.ppm --left  the other way
// No GPU: sh exercises/no-gpu/nvcc -std=c++17 -O3 -arch=sm_75
//             -o rotate90 exercises/rotate90.cu && ./rotate90
//
// The kernels, in the order in which to write them:
//   rotatePlanes       one sample a thread; a launch a channel, or a 3-D grid
//   rotateInterleaved  one RGB pixel a thread
//   rotateTiled        through shared memory, so that both sides are coalesced;
//                      with pitch 32 and with pitch 33
//   rotateWords        4 x 4 pixels at a time, moved as 4-byte words; given, to
//                      compare with yours
// rotate90.h has what they are held against.
//
// "Interleaved" is what a PPM holds, RGBRGB...; "planar" is all red samples,
// then all green, then all blue. Sizes are rows x columns, except where a line
// says width x height.
//
// SPDX-License-Identifier: MIT

#include "../exercises/rotate90.h"

#include <type_traits>

constexpr int kRowsPerThread = 4;  // of rotateTiled
constexpr int kTilePitch = kTile, kTilePaddedPitch = kTile + 1;
// A block of rotateWords, and its tile of the output: 128 rows and, planar, 128
// columns or, interleaved, 64.
constexpr int kWordLanes = 32, kWordWarps = 8;
constexpr int kWordRows = 4 * kWordLanes;
constexpr int kPlanarFours = 32, kInterleavedFours = 16;
constexpr size_t kLargestBytes = kLargest.rows * kLargest.cols * kChannels;

// How many lanes of a warp meet in one bank when they read down a column of a
// tile in shared memory: lane i reads word i * pitch, which lies in bank
// i * pitch mod 32, so it is the greatest common divisor of pitch and 32.
__host__ __device__ constexpr int conflictDegree(int pitch, int banks = 32) {
  return banks == 0 ? pitch : conflictDegree(banks, pitch % banks);
}

static_assert(kLargestBytes == 95883264 && kLargestBytes > 65536,
              "constant memory holds 65,536 bytes, the picture 95,883,264: it "
              "must go through global memory");
static_assert(conflictDegree(kTilePitch) == 32,
              "the plain tile is there to show the 32-way conflict");
static_assert(conflictDegree(kTilePaddedPitch) == 1,
              "the padded pitch must keep a column read free of conflicts");

// =================================================================== kernels
//
// All turn an image of rows x cols pixels into one of cols x rows, tightly
// packed, rows and cols under 2^30. Indexed by the output: a block owns a tile
// of it, and blockIdx.z is the plane, where there are planes.

// Where pixel (row, col) of the output comes from, as an index into a plane:
// clockwise from (rows - 1 - col, row), to the left from (col, cols - 1 - row).
__device__ size_t sourceOf(size_t row, size_t col, size_t rows, size_t cols,
                           bool left) {
  return left ? col * cols + cols - 1 - row : (rows - 1 - col) * cols + row;
}

// out(r, c) = in(source), plane by plane.
// A thread owns one sample of the output: its warp stores 32 consecutive ones,
// but loads from 32 different rows, 32 sectors for what would fit in one to
// four. The rest of each sector serves the block's other rows, if the cache
// keeps it so long.
// Launch: 32 x 32 threads; grid (outputs' tiles, gridDim.z planes).
// Compare three launches with one, and floats with bytes: a quarter of the
// traffic, but as many loads, and it is the loads that take the time.
template <class T>
__global__ void rotatePlanes(const T* d_in, T* d_out, size_t rows, size_t cols,
                             bool left) {
  // TODO(you): about 6 lines
  const size_t row = blockIdx.y * kTile + threadIdx.y;
  const size_t col = blockIdx.x * kTile + threadIdx.x;
  if (row >= cols || col >= rows) return;
  const size_t plane = blockIdx.z * rows * cols;
  const size_t from = sourceOf(row, col, rows, cols, left);
  d_out[plane + row * rows + col] = d_in[plane + from];
  // end TODO
}

// The same for RGBRGB...: a step is one pixel, three samples.
// A thread owns one pixel and moves its three bytes one by one.
// Launch: 32 x 32 threads, a 2-D grid.
// Compare with rotatePlanes on bytes: a third of the threads and of the
// strided pixels, but a warp's stores lie three bytes apart.
__global__ void rotateInterleaved(const unsigned char* d_in,
                                  unsigned char* d_out, size_t rows,
                                  size_t cols, bool left) {
  // TODO(you): about 6 lines
  const size_t row = blockIdx.y * kTile + threadIdx.y;
  const size_t col = blockIdx.x * kTile + threadIdx.x;
  if (row >= cols || col >= rows) return;
  const size_t from = kChannels * sourceOf(row, col, rows, cols, left);
  const size_t to = kChannels * (row * rows + col);
  for (size_t c = 0; c < kChannels; ++c) d_out[to + c] = d_in[from + c];
  // end TODO
}

// The same as rotatePlanes through a 32 x 32 tile in shared memory.
// A warp loads 32 consecutive samples of one input row, and after the barrier
// stores 32 consecutive samples of one output row: coalesced both ways. The
// turn happens in shared memory, where a warp reads down a column: lane i in
// bank i * pitch mod 32. With pitch 32 all lanes meet in one bank and wait for
// each other, 32 times; with pitch 33 no two meet.
// Launch: 32 x 8 threads, each for 4 rows; 32 * pitch samples of dynamic
// shared memory. All threads reach the barrier; the guard comes after it.
// Compare pitch 32 with 33: here padding pays, as it could not in the blur,
// where lanes read along a row.
template <class T>
__global__ void rotateTiled(const T* d_in, T* d_out, size_t rows, size_t cols,
                            bool left, int pitch) {
  // TODO(you): about 21 lines
  extern __shared__ float s_words[];
  T* s_tile = reinterpret_cast<T*>(s_words);
  const size_t plane = blockIdx.z * rows * cols;
  const size_t firstRow = blockIdx.y * kTile, firstCol = blockIdx.x * kTile;
  // All loads before the first store, so that they are under way together.
  // Outside the image its last pixel stands in, which nobody stores.
  T values[kRowsPerThread];
  const size_t y = threadIdx.y * kRowsPerThread;
  for (size_t i = 0; i < kRowsPerThread; ++i) {
    const size_t row = min(firstRow + threadIdx.x, cols - 1);
    const size_t col = min(firstCol + y + i, rows - 1);
    values[i] = d_in[plane + sourceOf(row, col, rows, cols, left)];
  }
  for (size_t i = 0; i < kRowsPerThread; ++i) {
    s_tile[(y + i) * pitch + threadIdx.x] = values[i];
  }
  __syncthreads();
  for (size_t i = 0; i < kRowsPerThread; ++i) {
    const size_t row = firstRow + y + i, col = firstCol + threadIdx.x;
    if (row < cols && col < rows) {
      d_out[plane + row * rows + col] = s_tile[threadIdx.x * pitch + y + i];
    }
  }
  // end TODO
}

// Four pixels of a row of `cols`, from `col` on, as kBytes words. Where the row
// has none its nearest pixel stands in, which nobody will store. Aligned: 4
// divides cols and col, and the row starts at a multiple of 4 bytes.
template <int kBytes, bool kAligned>
__device__ void loadFour(const unsigned char* d_row, int col, int cols,
                         unsigned (&words)[kBytes]) {
  for (int w = 0; w < kBytes; ++w) {
    if constexpr (kAligned) {
      const int from = kBytes * min(max(col, 0), cols - 4);
      words[w] = reinterpret_cast<const unsigned*>(d_row + from)[w];
    } else {
      words[w] = 0;
      for (int b = 0; b < 4; ++b) {
        const int at = 4 * w + b;
        const int from = kBytes * min(max(col + at / kBytes, 0), cols - 1);
        words[w] |= static_cast<unsigned>(d_row[from + at % kBytes]) << 8 * b;
      }
    }
  }
}

// The same turn, 4 x 4 pixels at a time, moved as 4-byte words: bytes one by
// one give a warp's load 32 bytes, words give it 128. kBytes is 1 for planes
// and 3 for RGBRGB...: four pixels are one word, or three.
// A thread loads four pixels from each of four rows, turns the block in its
// registers, and puts each output row's words into shared memory. After the
// barrier a warp stores one output row of the tile after the other, 128 bytes
// (planar) or 192 (interleaved) in one piece.
// Banks: [i][lane][word] with an odd pitch, so lanes write without conflict;
// they read consecutive words. 16,896 or 25,088 bytes of shared memory.
// Launch: 32 x 8 threads, a tile of 128 rows x 4 kFours columns of the output;
// kAligned only if 4 divides rows and cols. d_in and d_out as cudaMalloc
// returns them.
template <int kBytes, int kFours, bool kAligned>
__global__ void rotateWords(const unsigned char* d_in, unsigned char* d_out,
                            size_t rows, size_t cols, bool left) {
  constexpr int kPitch = kBytes * kFours + 1;
  constexpr int kLoads = kFours / kWordWarps;  // blocks of 4 x 4 a thread
  static_assert(conflictDegree(kPitch) == 1 && kFours % kWordWarps == 0,
                "the pitch must be odd, and every warp has its share");
  __shared__ unsigned s_tile[4][kWordLanes][kPitch];
  const size_t plane = blockIdx.z * rows * cols * kBytes;
  const int endRow = static_cast<int>(rows), endCol = static_cast<int>(cols);
  const int lane = threadIdx.x, warp = threadIdx.y;
  const int firstRow = blockIdx.y * kWordRows;  // of the output tile
  const int firstCol = blockIdx.x * 4 * kFours;

  // All loads first, so that many are under way. The output's rows are columns
  // of the input; its columns are rows of the input, clockwise from the last.
  unsigned words[kLoads][4][kBytes];
  const int row = firstRow + 4 * lane;
  for (int n = 0; n < kLoads; ++n) {
    for (int k = 0; k < 4; ++k) {
      const int col = min(firstCol + 4 * (warp * kLoads + n) + k, endRow - 1);
      const size_t fromRow = left ? col : endRow - 1 - col;
      loadFour<kBytes, kAligned>(d_in + plane + fromRow * cols * kBytes,
                                 left ? endCol - 4 - row : row, endCol,
                                 words[n][k]);
    }
  }
  // Output row i of a block: pixel i of each of the four input rows.
  for (int n = 0; n < kLoads; ++n) {
    for (int i = 0; i < 4; ++i) {
      for (int w = 0; w < kBytes; ++w) {
        unsigned word = 0;
        for (int b = 0; b < 4; ++b) {
          const int k = (4 * w + b) / kBytes;                  // input row
          const int from = kBytes * i + (4 * w + b) % kBytes;  // its byte
          word |= (words[n][k][from / 4] >> from % 4 * 8 & 0xFF) << 8 * b;
        }
        s_tile[left ? 3 - i : i][lane][(warp * kLoads + n) * kBytes + w] = word;
      }
    }
  }
  __syncthreads();
  using Unit = std::conditional_t<kAligned, unsigned, unsigned char>;
  constexpr int kUnits = 4 * kFours * kBytes / sizeof(Unit);  // of a full row
  const int units = min(4 * kFours, endRow - firstCol) * kBytes /
                    static_cast<int>(sizeof(Unit));
  for (int m = 0; m < kWordRows / kWordWarps; ++m) {
    const int y = warp * (kWordRows / kWordWarps) + m;
    const size_t to = (firstRow + y) * rows + firstCol;
    Unit* d_to = reinterpret_cast<Unit*>(d_out + plane + to * kBytes);
    const Unit* s_from = reinterpret_cast<const Unit*>(s_tile[y % 4][y / 4]);
    for (int x = lane; x - lane < kUnits; x += kWordLanes) {
      if (firstRow + y < endCol && x < units) d_to[x] = s_from[x];
    }
  }
}

// Copies `count` bytes, a Word a thread; the first threads also copy the bytes
// that are left over. What a rotation is set against.
template <class Word>
__global__ void copyWords(const unsigned char* d_in, unsigned char* d_out,
                          size_t count) {
  const size_t i = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const size_t words = count / sizeof(Word);
  if (i < words) {
    reinterpret_cast<Word*>(d_out)[i] = reinterpret_cast<const Word*>(d_in)[i];
  }
  if (i < count % sizeof(Word)) d_out[count - 1 - i] = d_in[count - 1 - i];
}

// ======================================================= the table of kernels

template <class T>
void launchPlanes(const Turn& turn, size_t launches) {
  const auto [rows, cols] = turn.size;
  const size_t planes = turn.channels / launches;  // of one launch
  for (size_t i = 0; i < launches; ++i) {
    const size_t first = i * planes * rows * cols;
    rotatePlanes<T><<<turn.grid(planes), kBlock>>>(
        reinterpret_cast<const T*>(turn.d_in) + first,
        reinterpret_cast<T*>(turn.d_out) + first, rows, cols, turn.left);
  }
}

template <class T>
void launchTiled(const Turn& turn, int pitch) {
  const dim3 block(kTile, kTile / kRowsPerThread);
  rotateTiled<T>
      <<<turn.grid(turn.channels), block, kTile * pitch * sizeof(T)>>>(
          reinterpret_cast<const T*>(turn.d_in),
          reinterpret_cast<T*>(turn.d_out), turn.size.rows, turn.size.cols,
          turn.left, pitch);
}

template <int kBytes, int kFours>
void launchWords(const Turn& turn) {
  const auto [rows, cols] = turn.size;
  const auto over = [](size_t extent, size_t tile) {
    return static_cast<unsigned>((extent + tile - 1) / tile);
  };
  const dim3 grid(over(rows, 4 * kFours), over(cols, kWordRows),
                  static_cast<unsigned>(turn.channels / kBytes));
  const bool aligned = rows % 4 == 0 && cols % 4 == 0;
  const auto kernel = aligned ? rotateWords<kBytes, kFours, true>
                              : rotateWords<kBytes, kFours, false>;
  kernel<<<grid, dim3(kWordLanes, kWordWarps)>>>(turn.d_in, turn.d_out, rows,
                                                 cols, turn.left);
}

template <class Word>
void launchCopy(const Turn& turn) {
  const size_t count = turn.size.pixels() * turn.channels;
  // At least as many threads as bytes can be left over.
  const size_t words = std::max(count / sizeof(Word), sizeof(Word));
  copyWords<Word><<<static_cast<unsigned>((words + 255) / 256), 256>>>(
      turn.d_in, turn.d_out, count);
}

// The table. To add a kernel, write it above, and name it here.
inline std::vector<Rotation> rotations() {
  const Layout interleaved = Layout::kInterleaved, planar = Layout::kPlanar;
  const Layout floats = Layout::kPlanarFloats;
  const Tile tile = {}, strip = {kTile, kTile, kRowsPerThread, 1};
  // Named is the thread that turns a pixel in its registers.
  const Tile words = {
      kWordRows, 4 * kPlanarFours, 4, kPlanarFours / 2, 0, false, true};
  const Tile triples = {
      kWordRows, 4 * kInterleavedFours, 4, kInterleavedFours / 2, 0, false,
      true};
  return {
      {kCopyRow, interleaved, false, tile, launchCopy<unsigned>},
      {"copy, 16 bytes a thread", interleaved, false, tile, launchCopy<uint4>},
      {"copy, cudaMemcpyAsync", interleaved, false, tile,
       [](const Turn& turn) {
         cudaMemcpyAsync(turn.d_out, turn.d_in,
                         turn.size.pixels() * turn.channels,
                         cudaMemcpyDeviceToDevice);
       }},
      {kThreeFloats, floats, true, tile,
       [](const Turn& turn) { launchPlanes<float>(turn, turn.channels); }},
      {kOneFloats, floats, true, tile,
       [](const Turn& turn) { launchPlanes<float>(turn, 1); }},
      {"planar bytes, three launches", planar, true, tile,
       [](const Turn& t) { launchPlanes<unsigned char>(t, t.channels); }},
      {kOneBytes, planar, true, tile,
       [](const Turn& turn) { launchPlanes<unsigned char>(turn, 1); }},
      {"interleaved bytes, one launch", interleaved, true, tile,
       [](const Turn& turn) {
         rotateInterleaved<<<turn.grid(1), kBlock>>>(
             turn.d_in, turn.d_out, turn.size.rows, turn.size.cols, turn.left);
       }},
      {kPitch32, floats, true, strip,
       [](const Turn& turn) { launchTiled<float>(turn, kTilePitch); }},
      {kPitch33, floats, true, strip,
       [](const Turn& turn) { launchTiled<float>(turn, kTilePaddedPitch); }},
      {"planar bytes, tile, pitch 33", planar, true, strip,
       [](const Turn& turn) {
         launchTiled<unsigned char>(turn, kTilePaddedPitch);
       }},
      {kPlanarWords, planar, true, words, launchWords<1, kPlanarFours>},
      {kInterleavedWords, interleaved, true, triples,
       launchWords<kChannels, kInterleavedFours>},
  };
}

int main(int argc, char** argv) {
  return turnMain(argc, argv,
                  {{kLessonSource, kTurnHarness, __FILE__}, rotations()});
}
