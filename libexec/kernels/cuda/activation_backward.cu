#include "libexec/kernels/cuda/cuda_op_kernels.hpp"
#include "libexec/kernels/cuda/element_wise.cuh"
#include "libexec/kernels/operands/activation_operands.hpp"

namespace stagecraft::cuda_ops {
namespace {

/// dx = dy f'(x + bias).
template <typename S>
struct GeluBackward {
  static constexpr int in_flight = 2;
  S const* dy;
  S const* x;
  S const* bias;  ///< or null
  S* dx;

  template <int width>
  struct Loaded {
    Pack<S, width> dy, x, bias;
  };
  template <int width>
  __device__ Loaded<width> load(ElementPlace at) const {
    return {load_pack<width>(dy + at.element), load_pack<width>(x + at.element),
            load_pack_or_zeros<width>(bias, at.column)};
  }
  template <int width>
  __device__ void finish(ElementPlace at, Loaded<width> const& in) const {
    Pack<S, width> out;
#pragma unroll
    for (int i = 0; i < width; ++i) {
      out[i] = narrow<S>(widen(in.dy[i]) * Gelu::slope(widen(in.x[i]) + widen(in.bias[i])));
    }
    store_pack(dx + at.element, out);
  }
};

/// dx = dy where y is positive.
template <typename S>
struct ReluBackward {
  static constexpr int in_flight = 2;
  S const* dy;
  S const* y;
  S* dx;

  template <int width>
  struct Loaded {
    Pack<S, width> dy, y;
  };
  template <int width>
  __device__ Loaded<width> load(ElementPlace at) const {
    return {load_pack<width>(dy + at.element), load_pack<width>(y + at.element)};
  }
  template <int width>
  __device__ void finish(ElementPlace at, Loaded<width> const& in) const {
    Pack<S, width> out;
#pragma unroll
    for (int i = 0; i < width; ++i) {
      out[i] = narrow<S>(widen(in.dy[i]) * Relu::slope_at_value(widen(in.y[i])));
    }
    store_pack(dx + at.element, out);
  }
};

/// The gradients of gate and up, side by side in rows of 2 `columns`; both with their bias.
template <typename Function, typename S>
struct GatedBackward {
  static constexpr int in_flight = 1;
  S const* dy;
  S const* x;
  S const* bias;  ///< or null
  S* dx;
  std::int64_t columns;

  template <int width>
  struct Loaded {
    Pack<S, width> dy, gate, up, gate_bias, up_bias;
  };
  template <int width>
  __device__ Loaded<width> load(ElementPlace at) const {
    S const* const gate = x + at.element + at.row * columns;
    return {load_pack<width>(dy + at.element), load_pack<width>(gate),
            load_pack<width>(gate + columns), load_pack_or_zeros<width>(bias, at.column),
            load_pack_or_zeros<width>(bias, at.column + columns)};
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
    S* const to = dx + at.element + at.row * columns;
    store_pack(to, d_gate);
    store_pack(to + columns, d_up);
  }
};

template <typename Function>
void gated_backward(CudaContext const& context, KernelCall const& call) {
  with_storage_type(call.kind, call.reads[0].type, [&](auto tag) {
    using S = decltype(tag);
    Operand const& dy = call.reads[0];
    std::int64_t const f = expect_activation<S>(call, call.reads[1], dy, 2);
    expect_tensor(call, call.writes[0], element_type<S>(), call.reads[1].shape);
    GatedBackward<Function, S> const body{elements_of<S>(dy), elements_of<S>(call.reads[1]),
                                          optional_bias<S>(call, 2, 2 * f),
                                          elements_of<S>(call.writes[0]), f};
    constexpr int width = pack_width<S>;
    launch_element_wise<width>(context.stream, extent_of(dy.shape.elements() / f, f),
                               can_pack(width, body.dy, body.x, body.bias, body.dx), body);
  });
}

}  // namespace

void gelu_backward(CudaContext const& context, KernelCall const& call) {
  with_storage_type(call.kind, call.reads[0].type, [&](auto tag) {
    using S = decltype(tag);
    Operand const& x = call.reads[1];
    std::int64_t const f = expect_activation<S>(call, x, call.reads[0], 1);
    expect_tensor(call, call.writes[0], element_type<S>(), x.shape);
    GeluBackward<S> const body{elements_of<S>(call.reads[0]), elements_of<S>(x),
                               optional_bias<S>(call, 2, f), elements_of<S>(call.writes[0])};
    constexpr int width = pack_width<S>;
    launch_element_wise<width>(context.stream, extent_of(x.shape.elements() / f, f),
                               can_pack(width, body.dy, body.x, body.bias, body.dx), body);
  });
}

void relu_backward(CudaContext const& context, KernelCall const& call) {
  with_storage_type(call.kind, call.reads[0].type, [&](auto tag) {
    using S = decltype(tag);
    Operand const& y = call.reads[1];
    expect_activation<S>(call, y, call.reads[0], 1);
    expect_tensor(call, call.writes[0], element_type<S>(), y.shape);
    ReluBackward<S> const body{elements_of<S>(call.reads[0]), elements_of<S>(y),
                               elements_of<S>(call.writes[0])};
    constexpr int width = pack_width<S>;
    launch_element_wise<width>(context.stream, flat_extent(y.shape.elements()),
                               can_pack(width, body.dy, body.y, body.dx), body);
  });
}

void geglu_backward(CudaContext const& context, KernelCall const& call) {
  gated_backward<Gated<Gelu>>(context, call);
}
void swiglu_backward(CudaContext const& context, KernelCall const& call) {
  gated_backward<Gated<Silu>>(context, call);
}
void swiglu_clamped_backward(CudaContext const& context, KernelCall const& call) {
  gated_backward<ClampedSwiglu>(context, call);
}

}  // namespace stagecraft::cuda_ops
