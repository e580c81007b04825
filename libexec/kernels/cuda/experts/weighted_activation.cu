#include "libexec/kernels/cuda/cuda_op_kernels.hpp"
#include "libexec/kernels/cuda/element_wise.cuh"
#include "libexec/kernels/cuda/row_loop.cuh"
#include "libexec/kernels/expert_rows.hpp"

namespace stagecraft::cuda_ops {
namespace {

/// y = f(x) times the probability of the row. `up` is behind `gate`, if the activation is gated.
template <typename Function, bool is_gated, typename S>
struct Weigh {
  using C = Compute<S>;
  static constexpr int in_flight = 2;
  S const* x;
  S* y;
  WeightedRows<S> all;

  template <int width>
  struct Loaded {
    Pack<S, width> gate, up;
    C probability;
  };
  template <int width>
  __device__ Loaded<width> load(ElementPlace at) const {
    S const* const gate = x + at.row * all.input + at.column;
    return {load_pack<width>(gate), load_pack_or_zeros<width>(is_gated ? gate : nullptr, all.width),
            all.probabilities[at.row]};
  }
  template <int width>
  __device__ void finish(ElementPlace at, Loaded<width> const& in) const {
    Pack<S, width> out;
#pragma unroll
    for (int i = 0; i < width; ++i) {
      out[i] =
          narrow<S>(Function::value(C{widen(in.gate[i])}, C{widen(in.up[i])}) * in.probability);
    }
    store_pack(y + at.element, out);
  }
};

template <typename S>
struct WeighBackward {
  S const* dy;
  S const* x;
  S* dx;
  Compute<S>* d_probabilities;
};

template <typename Function, bool is_gated, typename S, int width>
__global__ void __launch_bounds__(most_row_threads)
    weigh_backward(WeighBackward<S> const operands, WeightedRows<S> const all) {
  using C = Compute<S>;
  std::int64_t const row = this_row();
  if (row >= all.rows) return;
  S const* const dy = operands.dy + row * all.width;
  S const* const x = operands.x + row * all.input;
  S* const dx = operands.dx + row * all.input;
  C const probability = all.probabilities[row];
  C product = 0;
  for_columns<width>(all.width, [&](std::int64_t column) {
    Pack<S, width> const d = load_pack<width>(dy + column);
    Pack<S, width> const gate = load_pack<width>(x + column);
    Pack<S, width> const up = load_pack_or_zeros<width>(is_gated ? x : nullptr, all.width + column);
    Pack<S, width> d_gate;
    Pack<S, width> d_up;
#pragma unroll
    for (int i = 0; i < width; ++i) {
      C const g = widen(gate[i]);
      C const u = widen(up[i]);
      product += Function::value(g, u) * widen(d[i]);
      auto const gradients =
          input_gradients<Function, is_gated>(C{widen(d[i]) * probability}, g, u);
      d_gate[i] = narrow<S>(gradients.gate);
      d_up[i] = narrow<S>(gradients.up);
    }
    store_pack(dx + column, d_gate);
    if constexpr (is_gated) store_pack(dx + all.width + column, d_up);
  });
  product = row_sum(product);
  if (threadIdx.x == 0) operands.d_probabilities[row] = product;
}

template <typename Function, bool is_gated, typename S>
void weigh_of(CudaContext const& context, KernelCall const& call) {
  auto const all =
      expect_weighted_rows<S>(call, call.reads[0], call.reads[1], call.writes[0], is_gated ? 2 : 1);
  Weigh<Function, is_gated, S> const body{elements_of<S>(call.reads[0]),
                                          elements_of<S>(call.writes[0]), all};
  constexpr int width = pack_width<S>;
  launch_element_wise<width>(context.stream, extent_of(all.rows, all.width),
                             can_pack(width, body.x, body.y), body);
}

template <typename Function, bool is_gated, typename S>
void weigh_backward_of(CudaContext const& context, KernelCall const& call) {
  auto const all = expect_weighted_rows_backward<S>(call, is_gated ? 2 : 1);
  if (all.rows == 0) return;
  WeighBackward<S> const operands{elements_of<S>(call.reads[0]), elements_of<S>(call.reads[1]),
                                  elements_of<S>(call.writes[0]),
                                  elements_of<Compute<S>>(call.writes[1])};
  constexpr int width = pack_width<S>;
  bool const fits = all.width % width == 0 && can_pack(width, operands.dy, operands.x, operands.dx);
  RowLaunch const grid = looped_rows(all.rows, all.width, fits ? width : 1);
  launch(fits ? weigh_backward<Function, is_gated, S, width>
              : weigh_backward<Function, is_gated, S, 1>,
         grid.blocks, grid.threads, context.stream, operands, all);
}

}  // namespace

void weighted_activation(CudaContext const& context, KernelCall const& call) {
  with_storage_type(call, [&](auto tag) {
    with_function(
        attributes_of<ActivationAttributes>(call).activation, [&](auto function, auto gated) {
          weigh_of<decltype(function), decltype(gated)::value, decltype(tag)>(context, call);
        });
  });
}

void weighted_activation_backward(CudaContext const& context, KernelCall const& call) {
  with_storage_type(call, [&](auto tag) {
    with_function(attributes_of<ActivationAttributes>(call).activation, [&](auto function,
                                                                            auto gated) {
      weigh_backward_of<decltype(function), decltype(gated)::value, decltype(tag)>(context, call);
    });
  });
}

}  // namespace stagecraft::cuda_ops
