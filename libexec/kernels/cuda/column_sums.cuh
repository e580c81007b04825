#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "libexec/kernels/cuda/cuda_context.hpp"
#include "libexec/kernels/cuda/element_wise.cuh"
#include "libexec/kernels/operands/unit_operands.hpp"

/// Sums over rows, per column, in two stages: groups of rows into partial sums, then the partial
/// sums in order. The order of the sum depends only on the numbers of rows and columns.
namespace stagecraft::cuda_ops::column_sums {

inline constexpr int across = 32;  ///< threads side by side in a block
inline constexpr int down = 8;     ///< threads that share the rows of a group
inline constexpr int most_groups = 128;
/// The columns of one launch; partial sums of so many fit into the scratch memory.
inline constexpr std::int64_t most_columns = std::int64_t{1} << 17;

/// partial[output][group][column] = sum of term over the rows of a group.
template <int width, typename Term>
__global__ void __launch_bounds__(across* down) sum_groups(Term const term,
                                                           std::int64_t rows,
                                                           std::int64_t rows_per_group,
                                                           std::int64_t first_column,
                                                           std::int64_t columns,
                                                           typename Term::Sum* partial) {
  using C = typename Term::Sum;
  constexpr int outputs = Term::outputs;
  std::int64_t const first = (std::int64_t{blockIdx.x} * across + threadIdx.x) * width;
  std::int64_t const begin = blockIdx.y * rows_per_group;
  std::int64_t const end = begin + rows_per_group < rows ? begin + rows_per_group : rows;
  C sum[outputs][width] = {};
  if (first < columns) {
#pragma unroll 4
    for (std::int64_t row = begin + threadIdx.y; row < end; row += down) {
      term.template add<width>(row, first_column + first, sum);
    }
  }
  __shared__ C of_row[down][width][across];
#pragma unroll
  for (int output = 0; output < outputs; ++output) {
    __syncthreads();
#pragma unroll
    for (int i = 0; i < width; ++i) of_row[threadIdx.y][i][threadIdx.x] = sum[output][i];
    __syncthreads();
    if (threadIdx.y >= width || first >= columns) continue;
    C total = of_row[0][threadIdx.y][threadIdx.x];
#pragma unroll
    for (int y = 1; y < down; ++y) total += of_row[y][threadIdx.y][threadIdx.x];
    partial[(std::int64_t{output} * gridDim.y + blockIdx.y) * columns + first + threadIdx.y] =
        total;
  }
}

/// sums[column] += the groups' partial sums, in order.
template <typename C, typename G>
struct AddGroups {
  static constexpr int in_flight = 1;
  static constexpr int batch = 16;
  C const* partial;
  G* sums;
  std::int64_t columns;
  int groups;

  template <int width>
  struct Loaded {
    C total;
  };
  template <int width>
  __device__ Loaded<width> load(ElementPlace at) const {
    C total = 0;
    for (int first = 0; first < groups; first += batch) {
      C value[batch];
#pragma unroll
      for (int i = 0; i < batch; ++i) {
        value[i] = first + i < groups ? partial[(first + i) * columns + at.column] : C{0};
      }
#pragma unroll
      for (int i = 0; i < batch; ++i) total += value[i];
    }
    return {total};
  }
  template <int width>
  __device__ void finish(ElementPlace at, Loaded<width> const& in) const {
    add_to(sums[at.column], in.total);
  }
};

/// sums[output][column] += sum of term over all rows.
template <typename S, typename G, typename Term>
void add_column_sums(CudaContext const& context,
                     Term const& term,
                     std::int64_t rows,
                     std::int64_t columns,
                     bool fits,
                     G* const (&sums)[Term::outputs]) {
  using C = Compute<S>;
  static_assert(down >= pack_width<S>);
  static_assert(most_columns * Term::outputs * sizeof(C) <= CudaContext::scratch_bytes);
  if (rows == 0) return;
  C* const partial = context.scratch_of<C>();
  for (std::int64_t first = 0; first < columns; first += most_columns) {
    std::int64_t const count = std::min(most_columns, columns - first);
    // About 1024 blocks are enough for any device, and make few partial sums compared to the rows.
    constexpr std::int64_t tile = across * pack_width<S>;
    std::int64_t const tiles = (count + tile - 1) / tile;
    std::int64_t const wanted = std::min<std::int64_t>(
        {std::max<std::int64_t>(1024 / tiles, 1), most_groups, (rows + 4 * down - 1) / (4 * down)});
    std::int64_t const rows_per_group = (rows + wanted - 1) / wanted;
    auto const groups = static_cast<unsigned>((rows + rows_per_group - 1) / rows_per_group);
    auto const run = [&](auto width) {
      constexpr std::int64_t wide = across * width;
      launch(sum_groups<width, Term>,
             dim3{static_cast<unsigned>((count + wide - 1) / wide), groups}, dim3{across, down},
             context.stream, term, rows, rows_per_group, first, count, partial);
    };
    if (fits && columns % pack_width<S> == 0) {
      run(std::integral_constant<int, pack_width<S>>{});
    } else {
      run(std::integral_constant<int, 1>{});
    }
    for (int output = 0; output < Term::outputs; ++output) {
      AddGroups<C, G> const body{partial + output * groups * count, sums[output] + first, count,
                                 static_cast<int>(groups)};
      launch_element_wise<1>(context.stream, extent_of(1, count), true, body);
    }
  }
}

}  // namespace stagecraft::cuda_ops::column_sums
