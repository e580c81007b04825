#include "libexec/kernels/cuda/column_sums.cuh"
#include "libexec/kernels/cuda/cuda_op_kernels.hpp"
#include "libexec/kernels/operands/bias_operands.hpp"

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

}  // namespace

void bias_gradient(CudaContext const& context, KernelCall const& call) {
  with_storage_type(call, [&](auto tag) {
    using S = decltype(tag);
    auto const of = expect_bias_gradient<S>(call);
    column_sums::add_column_sums<S>(context, BiasTerm<S>{of}, of.rows, of.columns,
                                    can_pack(pack_width<S>, of.dy), {of.sums});
  });
}

}  // namespace stagecraft::cuda_ops
