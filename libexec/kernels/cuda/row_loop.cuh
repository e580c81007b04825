#pragma once

#include <algorithm>
#include <cstdint>

#include "libexec/kernels/cuda/pack.cuh"
#include "libexec/kernels/cuda/row_block.cuh"

/// Rows of any length whose threads reduce over them, and read them again where they need to.
namespace stagecraft {

/// Calls body(column) for each access of this thread to a row of n columns. Pre: n is a multiple of
/// the width.
template <int width, typename Body>
__device__ void for_columns(std::int64_t n, Body const& body) {
  std::int64_t const step = std::int64_t{blockDim.x} * width;
  for (std::int64_t column = std::int64_t{threadIdx.x} * width; column < n; column += step) {
    body(column);
  }
}

/// Threads that give each a few accesses, of `width` columns, to a row.
inline RowLaunch looped_rows(std::int64_t rows, std::int64_t columns, int width) {
  constexpr std::int64_t accesses = 4;
  std::int64_t const threads = (columns + accesses * width - 1) / (accesses * width);
  return row_launch(rows, std::clamp<std::int64_t>(threads, warp_threads, most_row_threads));
}

}  // namespace stagecraft
