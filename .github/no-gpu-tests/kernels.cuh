// A header of features.cu: translated too, with lines of its own.
// SPDX-License-Identifier: MIT
#pragma once

namespace deep {
namespace down {
template <class T>
__global__ void store(T* out, T value) {
  __shared__ T s_value[2];
  if (threadIdx.x == 0) s_value[1] = value;
  __syncthreads();
  out[blockIdx.x * blockDim.x + threadIdx.x] = s_value[1];
}
}  // namespace down
}  // namespace deep

inline const char* headerFile() {
  return __FILE__;
}
inline int headerLine() {
  return __LINE__;  // here: lines
}
