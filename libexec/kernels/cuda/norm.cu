#include "libexec/kernels/cuda/attention/heads_packing.hpp"
#include "libexec/kernels/cuda/column_sums.cuh"
#include "libexec/kernels/cuda/cuda_op_kernels.hpp"
#include "libexec/kernels/cuda/row_block.cuh"
#include "libexec/kernels/formulas.hpp"
#include "libexec/kernels/operands/norm_operands.hpp"

namespace stagecraft::cuda_ops {
namespace {

/// y = (x - mean) / std weight [+ bias], and the statistics; RMS norms: without mean and bias.
template <typename S, int width, int held>
__global__ void __launch_bounds__(most_row_threads) norm_rows(NormOperands<S> of) {
  using C = Compute<S>;
  constexpr int accesses = held / width;
  std::int64_t const index = this_row();
  auto const& rows = of.rows;
  if (index >= rows.rows) return;
  std::int64_t const n = rows.columns();
  NormRow<S> const x = rows.row(of.x, index);
  NormRow<S> const y = rows.row(of.y, index);
  Pack<S, width> values[accesses];
  for_accesses<width, accesses>(
      n, [&](int k, int column) { values[k] = load_pack<width>(x.at(column)); });
  C mean = 0;
  if (rows.mean != nullptr) {
    C sum = 0;
    for_accesses<width, accesses>(n, [&](int k, int) {
#pragma unroll
      for (int i = 0; i < width; ++i) sum += widen(values[k][i]);
    });
    mean = row_sum(sum) / static_cast<C>(n);
    if (threadIdx.x == 0) rows.mean[index] = mean;
  }
  // A second pass avoids the cancellation in the difference of the means of x^2 and x.
  C square = 0;
  for_accesses<width, accesses>(n, [&](int k, int) {
#pragma unroll
    for (int i = 0; i < width; ++i) {
      C const centred = widen(values[k][i]) - mean;
      square += centred * centred;
    }
  });
  C const inverse = inverse_deviation(row_sum(square) / static_cast<C>(n), of.epsilon);
  if (threadIdx.x == 0) rows.inverse[index] = inverse;
  for_accesses<width, accesses>(n, [&](int k, int column) {
    Pack<S, width> const scale = load_pack<width>(of.weight + column);
    Pack<S, width> const shift = load_pack_or_zeros<width>(of.bias, column);
    Pack<S, width> out;
#pragma unroll
    for (int i = 0; i < width; ++i) {
      out[i] = narrow<S>(normalized(widen(values[k][i]), mean, inverse) * widen(scale[i]) +
                         widen(shift[i]));
    }
    store_pack(y.at(column), out);
  });
}

template <typename S, int width, int held>
__global__ void __launch_bounds__(most_row_threads) norm_backward_rows(NormBackwardOperands<S> of) {
  using C = Compute<S>;
  constexpr int accesses = held / width;
  std::int64_t const index = this_row();
  auto const& rows = of.rows;
  if (index >= rows.rows) return;
  std::int64_t const n = rows.columns();
  NormRow<S> const dy = rows.row(of.dy, index);
  NormRow<S> const x = rows.row(of.x, index);
  NormRow<S> const dx = rows.row(of.dx, index);
  C const mean = rows.mean_of(index);
  C const inverse = rows.inverse[index];
  Pack<S, width> gradient[accesses];
  Pack<S, width> values[accesses];
  for_accesses<width, accesses>(n, [&](int k, int column) {
    gradient[k] = load_pack<width>(dy.at(column));
    values[k] = load_pack<width>(x.at(column));
  });
  C sum_g = 0;
  C sum_gx = 0;
  for_accesses<width, accesses>(n, [&](int k, int column) {
    Pack<S, width> const scale = load_pack<width>(of.weight + column);
#pragma unroll
    for (int i = 0; i < width; ++i) {
      C const g = widen(gradient[k][i]) * widen(scale[i]);
      sum_g += g;
      sum_gx += g * normalized(widen(values[k][i]), mean, inverse);
    }
  });
  C const mean_g = rows.mean != nullptr ? row_sum(sum_g) / static_cast<C>(n) : C{0};
  C const mean_gx = row_sum(sum_gx) / static_cast<C>(n);
  for_accesses<width, accesses>(n, [&](int k, int column) {
    Pack<S, width> const scale = load_pack<width>(of.weight + column);
    Pack<S, width> out;
#pragma unroll
    for (int i = 0; i < width; ++i) {
      C const normal = normalized(widen(values[k][i]), mean, inverse);
      out[i] = narrow<S>(
          norm_slope(widen(gradient[k][i]) * widen(scale[i]), normal, mean_g, mean_gx, inverse));
    }
    store_pack(dx.at(column), out);
  });
}

/// dy xhat and, if there is a bias, dy.
template <typename S, int count>
struct NormTerm {
  using Sum = Compute<S>;
  static constexpr int outputs = count;
  NormRows<Compute<S>> rows;
  HeadsView<S> dy, x;

  template <int width>
  __device__ void add(std::int64_t index, std::int64_t column, Sum (&sum)[count][width]) const {
    Pack<S, width> const gradient = load_pack<width>(rows.row(dy, index).at(column));
    Pack<S, width> const values = load_pack<width>(rows.row(x, index).at(column));
    Sum const mean = rows.mean_of(index);
    Sum const inverse = rows.inverse[index];
#pragma unroll
    for (int i = 0; i < width; ++i) {
      sum[0][i] += widen(gradient[i]) * normalized(widen(values[i]), mean, inverse);
      if constexpr (count == 2) sum[1][i] += widen(gradient[i]);
    }
  }
};

/// Whether every part of a row of x, or of what has its shape, consists of whole, aligned accesses.
template <typename S>
bool parts_can_pack(KernelCall const& call, Operand const& operand) {
  return norms_heads(call) ? heads_can_pack<S>(operand, pack_width<S>)
                           : can_pack(pack_width<S>, elements_of<S>(operand));
}

/// Launches kernel<S, width, held> with a block or a warp for each row.
template <typename S, typename Launch>
void with_rows(KernelCall const& call,
               NormRows<Compute<S>> const& rows,
               bool fits,
               Launch const& of) {
  std::int64_t const n = rows.columns();
  if (rows.rows == 0) return;
  with_held_row<S>(call.kind, n, fits, [&](auto width, auto held) {
    of(row_launch(rows.rows, (n + held - 1) / held), width, held);
  });
}

}  // namespace

void norm(CudaContext const& context, KernelCall const& call) {
  with_storage_type(call, [&](auto tag) {
    using S = decltype(tag);
    auto const of = expect_norm<S>(call);
    bool const fits = can_pack(pack_width<S>, of.weight, of.bias) &&
                      parts_can_pack<S>(call, call.reads[0]) &&
                      parts_can_pack<S>(call, call.writes[0]);
    with_rows<S>(call, of.rows, fits, [&](RowLaunch const& grid, auto width, auto held) {
      launch(norm_rows<S, width, held>, grid.blocks, grid.threads, context.stream, of);
    });
  });
}

void norm_backward(CudaContext const& context, KernelCall const& call) {
  with_storage_type(call, [&](auto tag) {
    using S = decltype(tag);
    auto const of = expect_norm_backward<S>(call);
    bool const fits =
        can_pack(pack_width<S>, of.weight) && parts_can_pack<S>(call, call.reads[0]) &&
        parts_can_pack<S>(call, call.reads[1]) && parts_can_pack<S>(call, call.writes[0]);
    with_rows<S>(call, of.rows, fits, [&](RowLaunch const& grid, auto width, auto held) {
      launch(norm_backward_rows<S, width, held>, grid.blocks, grid.threads, context.stream, of);
    });
  });
}

void norm_weight_gradient(CudaContext const& context, KernelCall const& call) {
  with_storage_type(call, [&](auto tag) {
    using S = decltype(tag);
    bool const fits =
        parts_can_pack<S>(call, call.reads[0]) && parts_can_pack<S>(call, call.reads[1]);
    with_gradient_type<S>(call, call.writes[0], [&](auto gradient) {
      using G = decltype(gradient);
      auto const of = expect_norm_weight_gradient<S, G>(call);
      std::int64_t const columns = of.rows.columns();
      if (of.d_bias != nullptr) {
        column_sums::add_column_sums<S, G>(context, NormTerm<S, 2>{of.rows, of.dy, of.x},
                                           of.rows.rows, columns, fits, {of.d_weight, of.d_bias});
      } else {
        column_sums::add_column_sums<S, G>(context, NormTerm<S, 1>{of.rows, of.dy, of.x},
                                           of.rows.rows, columns, fits, {of.d_weight});
      }
    });
  });
}

void heads_norm(CudaContext const& context, KernelCall const& call) { norm(context, call); }

void heads_norm_backward(CudaContext const& context, KernelCall const& call) {
  norm_backward(context, call);
}

void heads_norm_weight_gradient(CudaContext const& context, KernelCall const& call) {
  norm_weight_gradient(context, call);
}

}  // namespace stagecraft::cuda_ops
