#include "libexec/kernels/cuda/cuda_op_kernels.hpp"
#include "libexec/kernels/cuda/element_wise.cuh"
#include "libexec/kernels/operands/activation_operands.hpp"

namespace stagecraft::cuda_ops {
namespace {

/// dx = dy f'(x + bias).
template <typename S>
struct GeluBackward {
  static constexpr int in_flight = 2;
  ActivationBackwardOperands<S> of;

  template <int width>
  struct Loaded {
    Pack<S, width> dy, x, bias;
  };
  template <int width>
  __device__ Loaded<width> load(ElementPlace at) const {
    return {load_pack<width>(of.dy + at.element), load_pack<width>(of.x + at.element),
            load_pack_or_zeros<width>(of.bias, at.column)};
  }
  template <int width>
  __device__ void finish(ElementPlace at, Loaded<width> const& in) const {
    Pack<S, width> out;
#pragma unroll
    for (int i = 0; i < width; ++i) {
      out[i] = narrow<S>(widen(in.dy[i]) * Gelu::slope(widen(in.x[i]) + widen(in.bias[i])));
    }
    store_pack(of.dx + at.element, out);
  }
};

/// dx = dy where y is positive.
template <typename S>
struct ReluBackward {
  static constexpr int in_flight = 2;
  ActivationBackwardOperands<S> of;

  template <int width>
  struct Loaded {
    Pack<S, width> dy, y;
  };
  template <int width>
  __device__ Loaded<width> load(ElementPlace at) const {
    return {load_pack<width>(of.dy + at.element), load_pack<width>(of.x + at.element)};
  }
  template <int width>
  __device__ void finish(ElementPlace at, Loaded<width> const& in) const {
    Pack<S, width> out;
#pragma unroll
    for (int i = 0; i < width; ++i) {
      out[i] = narrow<S>(widen(in.dy[i]) * Relu::slope_at_value(widen(in.y[i])));
    }
    store_pack(of.dx + at.element, out);
  }
};

/// The gradients of gate and up, side by side in rows of 2 `columns`; both with their bias.
template <typename Function, typename S>
struct GatedBackward {
  static constexpr int in_flight = 1;
  ActivationBackwardOperands<S> of;

  template <int width>
  struct Loaded {
    Pack<S, width> dy, gate, up, gate_bias, up_bias;
  };
  template <int width>
  __device__ Loaded<width> load(ElementPlace at) const {
    S const* const gate = of.x + at.element + at.row * of.columns;
    return {load_pack<width>(of.dy + at.element), load_pack<width>(gate),
            load_pack<width>(gate + of.columns), load_pack_or_zeros<width>(of.bias, at.column),
            load_pack_or_zeros<width>(of.bias, at.column + of.columns)};
  }
  template <int width>
  __device__ void finish(ElementPlace at, Loaded<width> const& in) const {
    using C = Compute<S>;
    Pack<S, width> d_gate;
    Pack<S, width> d_up;
#pragma unroll
    for (int i = 0; i < width; ++i) {
      C const gate = widen(in.gate[i]) + widen(in.gate_bias[i]);
      C const up = widen(in.up[i]) + widen(in.up_bias[i]);
      C const gradient = widen(in.dy[i]);
      d_gate[i] = narrow<S>(Function::gate_gradient(gradient, gate, up));
      d_up[i] = narrow<S>(Function::up_gradient(gradient, gate, up));
    }
    S* const to = of.dx + at.element + at.row * of.columns;
    store_pack(to, d_gate);
    store_pack(to + of.columns, d_up);
  }
};

template <template <typename> typename Body>
void activate_backward(CudaContext const& context, KernelCall const& call, int branches) {
  with_storage_type(call, [&](auto tag) {
    using S = decltype(tag);
    auto const of = expect_activation_backward<S>(call, branches);
    constexpr int width = pack_width<S>;
    launch_element_wise<width>(context.stream, extent_of(of.rows, of.columns),
                               can_pack(width, of.dy, of.x, of.bias, of.dx), Body<S>{of});
  });
}

template <typename S>
using GegluBackward = GatedBackward<Gated<Gelu>, S>;
template <typename S>
using SwigluBackward = GatedBackward<Gated<Silu>, S>;
template <typename S>
using ClampedSwigluBackward = GatedBackward<ClampedSwiglu, S>;

}  // namespace

void gelu_backward(CudaContext const& context, KernelCall const& call) {
  activate_backward<GeluBackward>(context, call, 1);
}
void relu_backward(CudaContext const& context, KernelCall const& call) {
  activate_backward<ReluBackward>(context, call, 1);
}
void geglu_backward(CudaContext const& context, KernelCall const& call) {
  activate_backward<GegluBackward>(context, call, 2);
}
void swiglu_backward(CudaContext const& context, KernelCall const& call) {
  activate_backward<SwigluBackward>(context, call, 2);
}
void swiglu_clamped_backward(CudaContext const& context, KernelCall const& call) {
  activate_backward<ClampedSwigluBackward>(context, call, 2);
}

}  // namespace stagecraft::cuda_ops
