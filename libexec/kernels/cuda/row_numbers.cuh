#pragma once

#include <cstdint>
#include <cub/warp/warp_scan.cuh>

#include "libexec/kernels/cuda/block_scan.cuh"
#include "libexec/kernels/token_choices.hpp"

/// Numbers the rows of tokens, column by column (experts, or ranks in place of them), then token by
/// token. `Has` says which a token has: `bool operator()(std::int64_t token, std::int64_t column)`.
namespace stagecraft {

/// counts[column] = how many tokens have a row; a block per column.
template <typename Has>
__global__ void __launch_bounds__(scan_threads)
    count_rows_of_columns(Has const has, std::int64_t tokens, std::int32_t* counts) {
  std::int64_t const column = blockIdx.x;
  int rows = 0;
  for (std::int64_t token = threadIdx.x; token < tokens; token += blockDim.x) {
    rows += has(token, column) ? 1 : 0;
  }
  rows = row_sum(rows);
  if (threadIdx.x == 0) counts[column] = rows;
}

/// Numbers the rows of each column, one block per column, and writes each number into its token's
/// row of the map.
template <typename Has>
__global__ void __launch_bounds__(scan_threads)
    number_rows_of_columns(Has const has, RowMap const rows, std::int32_t const* counts) {
  std::int64_t const column = blockIdx.x;
  int before = 0;
  for (std::int64_t i = threadIdx.x; i < column; i += blockDim.x) before += counts[i];
  before = row_sum(before);
  for (std::int64_t first = 0; first < rows.tokens; first += blockDim.x) {
    std::int64_t const token = first + threadIdx.x;
    bool const has_row = token < rows.tokens && has(token, column);
    BlockSum<int> const some = block_prefix(has_row ? 1 : 0);
    if (has_row) rows.row(token, column) = before + some.before;
    before += some.all;
  }
}

/// Makes the map that op_kinds.def describes of what number_rows_of_columns() wrote; a warp per
/// token. Rows from `room` on are left out.
template <typename Has>
__global__ void __launch_bounds__(most_row_threads)
    pack_row_map(Has const has, RowMap const rows, std::int64_t room) {
  std::int64_t const token = this_row();
  if (token >= rows.tokens) return;
  int const lane = static_cast<int>(threadIdx.x);
  using Scan = cub::WarpScan<int>;
  __shared__ typename Scan::TempStorage storage[most_row_threads / warp_threads];
  int count = 0;
  for (std::int64_t first = 0; first < rows.experts; first += warp_threads) {
    std::int64_t const column = first + lane;
    bool is_there = column < rows.experts && has(token, column);
    std::int32_t const row = is_there ? rows.row(token, column) : 0;
    is_there = is_there && row < room;
    int before = 0;
    int all = 0;
    Scan{storage[threadIdx.y]}.ExclusiveSum(is_there ? 1 : 0, before, all);
    __syncwarp();  // numbers are read before those of lower columns are written over them
    if (is_there) {
      rows.row(token, count + before) = row;
      rows.expert(token, count + before) = static_cast<std::int32_t>(column);
    }
    count += all;
    __syncwarp();
  }
  for (std::int64_t i = count + lane; i < rows.experts; i += warp_threads) {
    rows.row(token, i) = 0;
    rows.expert(token, i) = 0;
  }
  if (lane == 0) rows.count(token) = count;
}

/// Launches what fills a row map and the counts of its columns.
template <typename Has>
void launch_row_numbers(cudaStream_t stream,
                        Has const& has,
                        RowMap const& rows,
                        std::int64_t room,
                        std::int32_t* counts) {
  auto const columns = static_cast<unsigned>(rows.experts);
  launch(count_rows_of_columns<Has>, columns, scan_threads, stream, has, rows.tokens, counts);
  if (rows.tokens == 0) return;
  launch(number_rows_of_columns<Has>, columns, scan_threads, stream, has, rows, counts);
  RowLaunch const grid = row_launch(rows.tokens, warp_threads);
  launch(pack_row_map<Has>, grid.blocks, grid.threads, stream, has, rows, room);
}

}  // namespace stagecraft
