#include <cmath>

#include "libexec/kernels/cuda/attention/heads_packing.hpp"
#include "libexec/kernels/cuda/column_sums.cuh"
#include "libexec/kernels/cuda/cuda_op_kernels.hpp"
#include "libexec/kernels/cuda/row_block.cuh"
#include "libexec/kernels/operands/norm_operands.hpp"

namespace stagecraft::cuda_ops {
namespace {

/// The element of a row's column.
template <typename S>
__device__ S* element_of(NormedHeads const& all,
                         HeadsView<S> const& view,
                         std::int64_t row,
                         int column) {
  auto const d = static_cast<int>(all.d);
  return all.head(view, row, column / d) + column % d;
}

/// y = x / rms weight, and the statistics.
template <typename S, int width, int held>
__global__ void __launch_bounds__(most_row_threads) norm_heads(HeadsNormOperands<S> of) {
  using C = Compute<S>;
  constexpr int accesses = held / width;
  std::int64_t const row = this_row();
  NormedHeads const& all = of.all;
  if (row >= all.rows) return;
  std::int64_t const n = all.columns();
  Pack<S, width> values[accesses];
  for_accesses<width, accesses>(n, [&](int k, int column) {
    values[k] = load_pack<width>(element_of(all, of.x, row, column));
  });
  C square = 0;
  for_accesses<width, accesses>(n, [&](int k, int) {
#pragma unroll
    for (int i = 0; i < width; ++i) square += widen(values[k][i]) * widen(values[k][i]);
  });
  C const inverse = C{1} / std::sqrt(row_sum(square) / static_cast<C>(n) + of.epsilon);
  if (threadIdx.x == 0) of.inverses[row] = inverse;
  for_accesses<width, accesses>(n, [&](int k, int column) {
    Pack<S, width> const scale = load_pack<width>(of.weight + column);
    Pack<S, width> out;
#pragma unroll
    for (int i = 0; i < width; ++i) {
      out[i] = narrow<S>(widen(values[k][i]) * inverse * widen(scale[i]));
    }
    store_pack(element_of(all, of.y, row, column), out);
  });
}

/// dx = (g - xhat mean(g xhat)) / rms with g = dy weight.
template <typename S, int width, int held>
__global__ void __launch_bounds__(most_row_threads)
    norm_heads_backward(HeadsNormBackwardOperands<S> of) {
  using C = Compute<S>;
  constexpr int accesses = held / width;
  std::int64_t const row = this_row();
  NormedHeads const& all = of.all;
  if (row >= all.rows) return;
  std::int64_t const n = all.columns();
  C const inverse = of.inverses[row];
  Pack<S, width> gradient[accesses];
  Pack<S, width> values[accesses];
  for_accesses<width, accesses>(n, [&](int k, int column) {
    gradient[k] = load_pack<width>(element_of(all, of.dy, row, column));
    values[k] = load_pack<width>(element_of(all, of.x, row, column));
  });
  C dot = 0;
  for_accesses<width, accesses>(n, [&](int k, int column) {
    Pack<S, width> const scale = load_pack<width>(of.weight + column);
#pragma unroll
    for (int i = 0; i < width; ++i) {
      dot += widen(gradient[k][i]) * widen(scale[i]) * (widen(values[k][i]) * inverse);
    }
  });
  C const mean = row_sum(dot) / static_cast<C>(n);
  for_accesses<width, accesses>(n, [&](int k, int column) {
    Pack<S, width> const scale = load_pack<width>(of.weight + column);
    Pack<S, width> out;
#pragma unroll
    for (int i = 0; i < width; ++i) {
      C const normal = widen(values[k][i]) * inverse;
      out[i] = narrow<S>((widen(gradient[k][i]) * widen(scale[i]) - normal * mean) * inverse);
    }
    store_pack(element_of(all, of.dx, row, column), out);
  });
}

/// dy xhat of normalized heads.
template <typename S>
struct HeadsNormTerm {
  using Sum = Compute<S>;
  static constexpr int outputs = 1;
  HeadsNormWeightGradientOperands<S> of;

  template <int width>
  __device__ void add(std::int64_t row, std::int64_t column, Sum (&sum)[1][width]) const {
    std::int64_t const k = column / of.all.d;
    std::int64_t const element = column - k * of.all.d;
    Pack<S, width> const gradient = load_pack<width>(of.all.head(of.dy, row, k) + element);
    Pack<S, width> const values = load_pack<width>(of.all.head(of.x, row, k) + element);
    Sum const inverse = of.inverses[row];
#pragma unroll
    for (int i = 0; i < width; ++i) {
      sum[0][i] += widen(gradient[i]) * (widen(values[i]) * inverse);
    }
  }
};

}  // namespace

void heads_norm(CudaContext const& context, KernelCall const& call) {
  with_storage_type(call, [&](auto tag) {
    using S = decltype(tag);
    auto const of = expect_heads_norm<S>(call);
    std::int64_t const n = of.all.columns();
    if (of.all.rows == 0) return;
    constexpr int most = pack_width<S>;
    bool const fits = can_pack(most, of.weight) && heads_can_pack<S>(call.reads[0], most) &&
                      heads_can_pack<S>(call.writes[0], most);
    with_held_row<S>(call.kind, n, fits, [&](auto width, auto held) {
      RowLaunch const grid = row_launch(of.all.rows, (n + held - 1) / held);
      launch(norm_heads<S, width, held>, grid.blocks, grid.threads, context.stream, of);
    });
  });
}

void heads_norm_backward(CudaContext const& context, KernelCall const& call) {
  with_storage_type(call, [&](auto tag) {
    using S = decltype(tag);
    auto const of = expect_heads_norm_backward<S>(call);
    std::int64_t const n = of.all.columns();
    if (of.all.rows == 0) return;
    constexpr int most = pack_width<S>;
    bool const fits = can_pack(most, of.weight) && heads_can_pack<S>(call.reads[0], most) &&
                      heads_can_pack<S>(call.reads[1], most) &&
                      heads_can_pack<S>(call.writes[0], most);
    with_held_row<S>(call.kind, n, fits, [&](auto width, auto held) {
      RowLaunch const grid = row_launch(of.all.rows, (n + held - 1) / held);
      launch(norm_heads_backward<S, width, held>, grid.blocks, grid.threads, context.stream, of);
    });
  });
}

void heads_norm_weight_gradient(CudaContext const& context, KernelCall const& call) {
  with_storage_type(call, [&](auto tag) {
    using S = decltype(tag);
    auto const of = expect_heads_norm_weight_gradient<S>(call);
    constexpr int width = pack_width<S>;
    bool const fits =
        heads_can_pack<S>(call.reads[0], width) && heads_can_pack<S>(call.reads[1], width);
    column_sums::add_column_sums<S>(context, HeadsNormTerm<S>{of}, of.all.rows, of.all.columns(),
                                    fits, {of.d_weight});
  });
}

}  // namespace stagecraft::cuda_ops
