#include "libexec/kernels/cuda/cuda_op_kernels.hpp"
#include "libexec/kernels/cuda/element_wise.cuh"
#include "libexec/kernels/cuda/row_loop.cuh"
#include "libexec/kernels/expert_rows.hpp"

namespace stagecraft::cuda_ops {
namespace {

/// y = x times the factor of the row.
template <typename S, typename F>
struct ScaleRows {
  using C = Compute<S>;
  static constexpr int in_flight = 4;
  RowFactor kind;
  S const* x;
  F const* factors;
  S* y;

  template <int width>
  struct Loaded {
    Pack<S, width> x;
    C factor;
  };
  template <int width>
  __device__ Loaded<width> load(ElementPlace at) const {
    return {load_pack<width>(x + at.element), factor_of(kind, C{widen(factors[at.row])}).value};
  }
  template <int width>
  __device__ void finish(ElementPlace at, Loaded<width> const& in) const {
    Pack<S, width> out;
#pragma unroll
    for (int i = 0; i < width; ++i) out[i] = narrow<S>(widen(in.x[i]) * in.factor);
    store_pack(y + at.element, out);
  }
};

template <typename S, typename F>
struct ScaleRowsBackward {
  RowFactor kind;
  S const* dy;
  S const* x;
  F const* factors;
  S* dx;
  F* d_factors;
};

template <typename S, typename F, int width>
__global__ void __launch_bounds__(most_row_threads)
    scale_back(ScaleRowsBackward<S, F> const operands, ScaledRows const all) {
  using C = Compute<S>;
  std::int64_t const row = this_row();
  if (row >= all.rows) return;
  auto const factor = factor_of(operands.kind, C{widen(operands.factors[row])});
  S const* const d = operands.dy + row * all.width;
  S const* const x = operands.x + row * all.width;
  S* const dx = operands.dx + row * all.width;
  C product = 0;
  for_columns<width>(all.width, [&](std::int64_t column) {
    Pack<S, width> const gradient = load_pack<width>(d + column);
    Pack<S, width> const values = load_pack<width>(x + column);
    Pack<S, width> out;
#pragma unroll
    for (int i = 0; i < width; ++i) {
      product += C{widen(gradient[i])} * C{widen(values[i])};
      out[i] = narrow<S>(widen(gradient[i]) * factor.value);
    }
    store_pack(dx + column, out);
  });
  product = row_sum(product);
  if (threadIdx.x == 0) operands.d_factors[row] = narrow<F>(product * factor.slope);
}

}  // namespace

void scale_rows(CudaContext const& context, KernelCall const& call) {
  with_factor_types(call, call.reads[0], call.reads[1], [&](auto element, auto factor) {
    using S = decltype(element);
    using F = decltype(factor);
    ScaledRows const all = expect_scaled_rows<S, F>(call);
    ScaleRows<S, F> const body{attributes_of<RowScaleAttributes>(call).factor,
                               elements_of<S>(call.reads[0]), elements_of<F>(call.reads[1]),
                               elements_of<S>(call.writes[0])};
    constexpr int width = pack_width<S>;
    launch_element_wise<width>(context.stream, extent_of(all.rows, all.width),
                               can_pack(width, body.x, body.y), body);
  });
}

void scale_rows_backward(CudaContext const& context, KernelCall const& call) {
  with_factor_types(call, call.reads[1], call.reads[2], [&](auto element, auto factor) {
    using S = decltype(element);
    using F = decltype(factor);
    ScaledRows const all = expect_scaled_rows_backward<S, F>(call);
    if (all.rows == 0) return;
    ScaleRowsBackward<S, F> const operands{attributes_of<RowScaleAttributes>(call).factor,
                                           elements_of<S>(call.reads[0]),
                                           elements_of<S>(call.reads[1]),
                                           elements_of<F>(call.reads[2]),
                                           elements_of<S>(call.writes[0]),
                                           elements_of<F>(call.writes[1])};
    constexpr int width = pack_width<S>;
    bool const fits =
        all.width % width == 0 && can_pack(width, operands.dy, operands.x, operands.dx);
    RowLaunch const grid = looped_rows(all.rows, all.width, fits ? width : 1);
    launch(fits ? scale_back<S, F, width> : scale_back<S, F, 1>, grid.blocks, grid.threads,
           context.stream, operands, all);
  });
}

}  // namespace stagecraft::cuda_ops
