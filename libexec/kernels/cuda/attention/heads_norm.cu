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
__global__ void __launch_bounds__(most_row_threads) norm_heads(HeadsView<S> const x,
                                                               S const* weight,
                                                               HeadsView<S> const y,
                                                               Compute<S>* inverses,
                                                               NormedHeads const all,
                                                               Compute<S> epsilon) {
  using C = Compute<S>;
  constexpr int accesses = held / width;
  std::int64_t const row = this_row();
  if (row >= all.rows) return;
  std::int64_t const n = all.columns();
  Pack<S, width> values[accesses];
  for_accesses<width, accesses>(
      n, [&](int k, int column) { values[k] = load_pack<width>(element_of(all, x, row, column)); });
  C square = 0;
  for_accesses<width, accesses>(n, [&](int k, int) {
#pragma unroll
    for (int i = 0; i < width; ++i) square += widen(values[k][i]) * widen(values[k][i]);
  });
  C const inverse = C{1} / std::sqrt(row_sum(square) / static_cast<C>(n) + epsilon);
  if (threadIdx.x == 0) inverses[row] = inverse;
  for_accesses<width, accesses>(n, [&](int k, int column) {
    Pack<S, width> const scale = load_pack<width>(weight + column);
    Pack<S, width> out;
#pragma unroll
    for (int i = 0; i < width; ++i) {
      out[i] = narrow<S>(widen(values[k][i]) * inverse * widen(scale[i]));
    }
    store_pack(element_of(all, y, row, column), out);
  });
}

/// dx = (g - xhat mean(g xhat)) / rms with g = dy weight.
template <typename S, int width, int held>
__global__ void __launch_bounds__(most_row_threads) norm_heads_backward(HeadsView<S> const dy,
                                                                        HeadsView<S> const x,
                                                                        S const* weight,
                                                                        HeadsView<S> const dx,
                                                                        Compute<S> const* inverses,
                                                                        NormedHeads const all) {
  using C = Compute<S>;
  constexpr int accesses = held / width;
  std::int64_t const row = this_row();
  if (row >= all.rows) return;
  std::int64_t const n = all.columns();
  C const inverse = inverses[row];
  Pack<S, width> gradient[accesses];
  Pack<S, width> values[accesses];
  for_accesses<width, accesses>(n, [&](int k, int column) {
    gradient[k] = load_pack<width>(element_of(all, dy, row, column));
    values[k] = load_pack<width>(element_of(all, x, row, column));
  });
  C dot = 0;
  for_accesses<width, accesses>(n, [&](int k, int column) {
    Pack<S, width> const scale = load_pack<width>(weight + column);
#pragma unroll
    for (int i = 0; i < width; ++i) {
      dot += widen(gradient[k][i]) * widen(scale[i]) * (widen(values[k][i]) * inverse);
    }
  });
  C const mean = row_sum(dot) / static_cast<C>(n);
  for_accesses<width, accesses>(n, [&](int k, int column) {
    Pack<S, width> const scale = load_pack<width>(weight + column);
    Pack<S, width> out;
#pragma unroll
    for (int i = 0; i < width; ++i) {
      C const normal = widen(values[k][i]) * inverse;
      out[i] = narrow<S>((widen(gradient[k][i]) * widen(scale[i]) - normal * mean) * inverse);
    }
    store_pack(element_of(all, dx, row, column), out);
  });
}

/// dy xhat of normalized heads.
template <typename S>
struct HeadsNormTerm {
  using Sum = Compute<S>;
  static constexpr int outputs = 1;
  HeadsView<S> dy, x;
  Sum const* inverses;
  NormedHeads all;

  template <int width>
  __device__ void add(std::int64_t row, std::int64_t column, Sum (&sum)[1][width]) const {
    std::int64_t const k = column / all.d;
    std::int64_t const element = column - k * all.d;
    Pack<S, width> const gradient = load_pack<width>(all.head(dy, row, k) + element);
    Pack<S, width> const values = load_pack<width>(all.head(x, row, k) + element);
    Sum const inverse = inverses[row];
#pragma unroll
    for (int i = 0; i < width; ++i) {
      sum[0][i] += widen(gradient[i]) * (widen(values[i]) * inverse);
    }
  }
};

}  // namespace

void heads_norm(CudaContext const& context, KernelCall const& call) {
  Operand const& x = call.reads[0];
  Operand const& y = call.writes[0];
  with_storage_type(call.kind, x.type, [&](auto tag) {
    using S = decltype(tag);
    using C = Compute<S>;
    NormedHeads const all = normed_heads<S>(call, x, call.writes[1]);
    std::int64_t const n = all.columns();
    expect_tensor(call, call.reads[1], element_type<S>(), {n});
    expect_heads(call, y, element_type<S>(), x.shape);
    S const* const weight = elements_of<S>(call.reads[1]);
    if (all.rows == 0) return;
    constexpr int most = pack_width<S>;
    bool const fits =
        can_pack(most, weight) && heads_can_pack<S>(x, most) && heads_can_pack<S>(y, most);
    with_held_row<S>(call.kind, n, fits, [&](auto width, auto held) {
      RowLaunch const grid = row_launch(all.rows, (n + held - 1) / held);
      launch(norm_heads<S, width, held>, grid.blocks, grid.threads, context.stream, HeadsView<S>{x},
             weight, HeadsView<S>{y}, elements_of<C>(call.writes[1]), all,
             static_cast<C>(attributes_of<HeadsNormAttributes>(call).epsilon));
    });
  });
}

void heads_norm_backward(CudaContext const& context, KernelCall const& call) {
  Operand const& dy = call.reads[0];
  Operand const& x = call.reads[1];
  Operand const& dx = call.writes[0];
  with_storage_type(call.kind, dy.type, [&](auto tag) {
    using S = decltype(tag);
    NormedHeads const all = normed_heads<S>(call, x, call.reads[2]);
    std::int64_t const n = all.columns();
    expect_heads(call, dy, element_type<S>(), x.shape);
    expect_tensor(call, call.reads[3], element_type<S>(), {n});
    expect_heads(call, dx, element_type<S>(), x.shape);
    S const* const weight = elements_of<S>(call.reads[3]);
    if (all.rows == 0) return;
    constexpr int most = pack_width<S>;
    bool const fits = can_pack(most, weight) && heads_can_pack<S>(dy, most) &&
                      heads_can_pack<S>(x, most) && heads_can_pack<S>(dx, most);
    with_held_row<S>(call.kind, n, fits, [&](auto width, auto held) {
      RowLaunch const grid = row_launch(all.rows, (n + held - 1) / held);
      launch(norm_heads_backward<S, width, held>, grid.blocks, grid.threads, context.stream,
             HeadsView<S>{dy}, HeadsView<S>{x}, weight, HeadsView<S>{dx},
             elements_of<Compute<S>>(call.reads[2]), all);
    });
  });
}

void heads_norm_weight_gradient(CudaContext const& context, KernelCall const& call) {
  Operand const& dy = call.reads[0];
  Operand const& x = call.reads[1];
  with_storage_type(call.kind, dy.type, [&](auto tag) {
    using S = decltype(tag);
    using C = Compute<S>;
    NormedHeads const all = normed_heads<S>(call, x, call.reads[2]);
    expect_heads(call, dy, element_type<S>(), x.shape);
    expect_tensor(call, call.writes[0], element_type<C>(), {all.columns()});
    HeadsNormTerm<S> const term{HeadsView<S>{dy}, HeadsView<S>{x}, elements_of<C>(call.reads[2]),
                                all};
    constexpr int width = pack_width<S>;
    column_sums::add_column_sums<S>(context, term, all.rows, all.columns(),
                                    heads_can_pack<S>(dy, width) && heads_can_pack<S>(x, width),
                                    {elements_of<C>(call.writes[0])});
  });
}

}  // namespace stagecraft::cuda_ops
