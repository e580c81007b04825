#pragma once

#include <algorithm>
#include <cstdint>

#include "libexec/kernels/cuda/launch.cuh"
#include "libexec/kernels/cuda/pack.cuh"

/// The driver of all kernels that make each element from a few others, bound by memory.
namespace stagecraft {

/// Elements of a kernel: rows x columns of a tensor, or a flat range cut into rows, the last of
/// which may be short.
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

/// First of the elements that a thread works on at a time.
struct ElementPlace {
  std::int64_t row = 0;
  std::int64_t column = 0;
  std::int64_t element = 0;  ///< row * columns + column
};

inline constexpr int element_wise_threads = 256;
/// Blocks that a multiprocessor holds at least: at most 80 registers a thread, so that enough loads
/// are under way beside those that compute.
inline constexpr int element_wise_blocks = 3;

/// Body says what happens to `width` consecutive columns:
///
///     static constexpr int in_flight;  // accesses of a thread before the first is used
///     template <int width> struct Loaded;
///     template <int width> __device__ Loaded<width> load(ElementPlace at) const;
///     template <int width> __device__ void finish(ElementPlace at, Loaded<width> const& in) const;
///
/// A thread loads all it works on, then finishes it, so that `in_flight` loads are under way at
/// once: of one column in rows that follow each other, so that what is read by column (a bias) is
/// read once. An operand may be written where it is read.
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
  // Whole warps across a row, as even as tiles allow; short rows several to a block.
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

/// Launches `body` over `extent`, `width` columns a thread and access where `fits` says that every
/// operand can be read so (can_pack(), strides) and the columns come in as many; else one.
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
