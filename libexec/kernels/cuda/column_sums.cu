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
  S const* dy;
  std::int64_t columns;

  template <int width>
  __device__ void add(std::int64_t row, std::int64_t column, Sum (&sum)[1][width]) const {
    Pack<S, width> const in = load_pack<width>(dy + row * columns + column);
#pragma unroll
    for (int i = 0; i < width; ++i) sum[0][i] += widen(in[i]);
  }
};

}  // namespace

void bias_gradient(CudaContext const& context, KernelCall const& call) {
  with_storage_type(call, [&](auto tag) {
    using S = decltype(tag);
    with_gradient_type<S>(call, call.writes[0], [&](auto gradient) {
      using G = decltype(gradient);
      auto const of = expect_bias_gradient<S, G>(call);
      column_sums::add_column_sums<S, G>(context, BiasTerm<S>{of.dy, of.columns}, of.rows,
                                         of.columns, can_pack(pack_width<S>, of.dy), {of.sums});
    });
  });
}

}  // namespace stagecraft::cuda_ops
