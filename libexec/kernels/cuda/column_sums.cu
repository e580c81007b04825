#include "libexec/kernels/cuda/column_sums.cuh"
#include "libexec/kernels/cuda/cuda_op_kernels.hpp"
#include "libexec/kernels/operands/bias_operands.hpp"
#include "libexec/kernels/operands/norm_operands.hpp"

namespace stagecraft::cuda_ops {
namespace {

/// dy.
template <typename S>
struct BiasTerm {
  using Sum = Compute<S>;
  static constexpr int outputs = 1;
  BiasGradientOperands<S> of;

  template <int width>
  __device__ void add(std::int64_t row, std::int64_t column, Sum (&sum)[1][width]) const {
    Pack<S, width> const in = load_pack<width>(of.dy + row * of.columns + column);
#pragma unroll
    for (int i = 0; i < width; ++i) sum[0][i] += widen(in[i]);
  }
};

/// dy xhat and, if there is a bias, dy.
template <typename S, int count>
struct NormTerm {
  using Sum = Compute<S>;
  static constexpr int outputs = count;
  NormWeightGradientOperands<S> of;

  template <int width>
  __device__ void add(std::int64_t row, std::int64_t column, Sum (&sum)[count][width]) const {
    Pack<S, width> const gradient = load_pack<width>(of.dy + row * of.moments.columns + column);
    Pack<S, width> const values = load_pack<width>(of.x + row * of.moments.columns + column);
    Sum const mean = of.moments.mean_of(row);
    Sum const inverse = of.moments.inverse[row];
#pragma unroll
    for (int i = 0; i < width; ++i) {
      sum[0][i] += widen(gradient[i]) * ((widen(values[i]) - mean) * inverse);
      if constexpr (count == 2) sum[1][i] += widen(gradient[i]);
    }
  }
};

}  // namespace

void bias_gradient(CudaContext const& context, KernelCall const& call) {
  with_storage_type(call, [&](auto tag) {
    using S = decltype(tag);
    auto const of = expect_bias_gradient<S>(call);
    column_sums::add_column_sums<S>(context, BiasTerm<S>{of}, of.rows, of.columns,
                                    can_pack(pack_width<S>, of.dy), {of.sums});
  });
}

void norm_weight_gradient(CudaContext const& context, KernelCall const& call) {
  with_storage_type(call, [&](auto tag) {
    using S = decltype(tag);
    auto const of = expect_norm_weight_gradient<S>(call);
    auto const& moments = of.moments;
    bool const fits = can_pack(pack_width<S>, of.dy, of.x);
    if (of.d_bias != nullptr) {
      column_sums::add_column_sums<S>(context, NormTerm<S, 2>{of}, moments.rows, moments.columns,
                                      fits, {of.d_weight, of.d_bias});
    } else {
      column_sums::add_column_sums<S>(context, NormTerm<S, 1>{of}, moments.rows, moments.columns,
                                      fits, {of.d_weight});
    }
  });
}

}  // namespace stagecraft::cuda_ops
