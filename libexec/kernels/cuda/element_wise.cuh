#pragma once

#include <algorithm>
#include <cstdint>

#include "libexec/kernels/cuda/launch.cuh"
#include "libexec/kernels/cuda/pack.cuh"

/// The driver of element-wise kernels, which are bound by memory.
namespace stagecraft {

/// The elements of a kernel: rows x columns of a tensor, or a flat range cut into rows, the last of
/// which may be shorter.
struct Extent {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t elements = 0;
};

inline Extent extent_of(std::int64_t rows, std::int64_t columns) {
  return {rows, columns, rows * columns};
}

inline Extent flat_extent(std::int64_t elements) {
  constexpr std::int64_t row = 4096;
  return {(elements + row - 1) / row, row, elements};
}

/// The position of the first element of a thread's access.
struct ElementPlace {
  std::int64_t row = 0;
  std::int64_t column = 0;
  std::int64_t element = 0;  ///< row * columns + column
};

inline constexpr int element_wise_threads = 256;
/// The least number of blocks per multiprocessor. It limits a thread to 80 registers, so that
/// enough loads are in flight during computation.
inline constexpr int element_wise_blocks = 3;

/// `Body` processes `width` consecutive columns:
///
///     static constexpr int in_flight;  // accesses of a thread before the first is used
///     template <int width> struct Loaded;
///     template <int width> __device__ Loaded<width> load(ElementPlace at) const;
///     template <int width> __device__ void finish(ElementPlace at, Loaded<width> const& in) const;
///
/// A thread loads all its elements before it finishes them, so that `in_flight` loads are in flight
/// at once. They are of the same columns in consecutive rows, so that operands that depend on the
/// column only (a bias) are read once. An operand may be updated in place.
template <int width, typename Body>
__global__ void __launch_bounds__(element_wise_threads, element_wise_blocks)
    element_wise(Body const body, Extent const extent, unsigned const column_tiles) {
  constexpr int in_flight = Body::in_flight;
  std::int64_t const tile = blockIdx.x % column_tiles;
  std::int64_t const band = blockIdx.x / column_tiles;
  std::int64_t const column = (tile * blockDim.x + threadIdx.x) * width;
  std::int64_t const first_row = band * in_flight * blockDim.y + threadIdx.y;
  if (column >= extent.columns) return;
  auto const place = [&](int i) {
    std::int64_t const row = first_row + std::int64_t{i} * blockDim.y;
    return ElementPlace{row, column, row * extent.columns + column};
  };
  typename Body::template Loaded<width> loaded[in_flight];
#pragma unroll
  for (int i = 0; i < in_flight; ++i) {
    ElementPlace const at = place(i);
    if (at.element < extent.elements) loaded[i] = body.template load<width>(at);
  }
#pragma unroll
  for (int i = 0; i < in_flight; ++i) {
    ElementPlace const at = place(i);
    if (at.element < extent.elements) body.template finish<width>(at, loaded[i]);
  }
}

template <int width, typename Body>
void launch_tiles(cudaStream_t stream, Extent const& extent, Body const& body) {
  // Whole warps across a row, as evenly as tiles allow; several short rows per block.
  std::int64_t const packs = (extent.columns + width - 1) / width;
  std::int64_t const column_tiles = (packs + element_wise_threads - 1) / element_wise_threads;
  std::int64_t across = (packs + column_tiles - 1) / column_tiles;
  if (across >= 32) {
    across = (across + 31) / 32 * 32;
  } else {
    std::int64_t power = 1;
    while (power < across) power *= 2;
    across = power;
  }
  std::int64_t const down = element_wise_threads / across;
  std::int64_t const band = down * Body::in_flight;
  std::int64_t const bands = (extent.rows + band - 1) / band;
  launch(element_wise<width, Body>, static_cast<unsigned>(column_tiles * bands),
         dim3{static_cast<unsigned>(across), static_cast<unsigned>(down)}, stream, body, extent,
         static_cast<unsigned>(column_tiles));
}

/// Launches `body` over `extent`, with `width` columns per access if `fits` says that every operand
/// allows it (can_pack(), strides) and the number of columns is a multiple of it, otherwise with
/// one.
template <int width, typename Body>
void launch_element_wise(cudaStream_t stream, Extent const& extent, bool fits, Body const& body) {
  if (extent.elements == 0) return;
  if (fits && extent.columns % width == 0 && extent.elements % width == 0) {
    launch_tiles<width>(stream, extent, body);
  } else {
    launch_tiles<1>(stream, extent, body);
  }
}

}  // namespace stagecraft
