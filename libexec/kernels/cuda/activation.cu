#include "libexec/kernels/cuda/cuda_op_kernels.hpp"
#include "libexec/kernels/cuda/element_wise.cuh"
#include "libexec/kernels/operands/activation_operands.hpp"

namespace stagecraft::cuda_ops {
namespace {

/// y = f(x + bias).
template <typename Function, typename S>
struct Activate {
  static constexpr int in_flight = 4;
  ActivationOperands<S> of;

  template <int width>
  struct Loaded {
    Pack<S, width> x, bias;
  };
  template <int width>
  __device__ Loaded<width> load(ElementPlace at) const {
    return {load_pack<width>(of.x + at.element), load_pack_or_zeros<width>(of.bias, at.column)};
  }
  template <int width>
  __device__ void finish(ElementPlace at, Loaded<width> const& in) const {
    Pack<S, width> out;
#pragma unroll
    for (int i = 0; i < width; ++i) {
      out[i] = narrow<S>(Function::value(widen(in.x[i]) + widen(in.bias[i])));
    }
    store_pack(of.y + at.element, out);
  }
};

/// y = f(gate + bias, up + bias), gate and up side by side in rows of 2 `columns`.
template <typename Function, typename S>
struct ActivateGated {
  static constexpr int in_flight = 2;
  ActivationOperands<S> of;

  template <int width>
  struct Loaded {
    Pack<S, width> gate, up, gate_bias, up_bias;
  };
  template <int width>
  __device__ Loaded<width> load(ElementPlace at) const {
    S const* const gate = of.x + at.element + at.row * of.columns;
    return {load_pack<width>(gate), load_pack<width>(gate + of.columns),
            load_pack_or_zeros<width>(of.bias, at.column),
            load_pack_or_zeros<width>(of.bias, at.column + of.columns)};
  }
  template <int width>
  __device__ void finish(ElementPlace at, Loaded<width> const& in) const {
    Pack<S, width> out;
#pragma unroll
    for (int i = 0; i < width; ++i) {
      out[i] = narrow<S>(Function::value(widen(in.gate[i]) + widen(in.gate_bias[i]),
                                         widen(in.up[i]) + widen(in.up_bias[i])));
    }
    store_pack(of.y + at.element, out);
  }
};

template <template <typename, typename> typename Body, typename Function>
void activate(CudaContext const& context, KernelCall const& call, int branches) {
  with_storage_type(call, [&](auto tag) {
    using S = decltype(tag);
    auto const of = expect_activation<S>(call, branches);
    constexpr int width = pack_width<S>;
    launch_element_wise<width>(context.stream, extent_of(of.rows, of.columns),
                               can_pack(width, of.x, of.bias, of.y), Body<Function, S>{of});
  });
}

}  // namespace

void gelu(CudaContext const& context, KernelCall const& call) {
  activate<Activate, Gelu>(context, call, 1);
}
void relu(CudaContext const& context, KernelCall const& call) {
  activate<Activate, Relu>(context, call, 1);
}
void geglu(CudaContext const& context, KernelCall const& call) {
  activate<ActivateGated, Gated<Gelu>>(context, call, 2);
}
void swiglu(CudaContext const& context, KernelCall const& call) {
  activate<ActivateGated, Gated<Silu>>(context, call, 2);
}
void swiglu_clamped(CudaContext const& context, KernelCall const& call) {
  activate<ActivateGated, ClampedSwiglu>(context, call, 2);
}

}  // namespace stagecraft::cuda_ops
