#include "libexec/kernels/cuda/cuda_op_kernels.hpp"
#include "libexec/kernels/cuda/element_wise.cuh"
#include "libexec/kernels/operands/activation_operands.hpp"

namespace stagecraft::cuda_ops {
namespace {

/// y = f(x + bias).
template <typename Function, typename S>
struct Activate {
  static constexpr int in_flight = 4;
  S const* x;
  S const* bias;  ///< or null
  S* y;

  template <int width>
  struct Loaded {
    Pack<S, width> x, bias;
  };
  template <int width>
  __device__ Loaded<width> load(ElementPlace at) const {
    return {load_pack<width>(x + at.element), load_pack_or_zeros<width>(bias, at.column)};
  }
  template <int width>
  __device__ void finish(ElementPlace at, Loaded<width> const& in) const {
    Pack<S, width> out;
#pragma unroll
    for (int i = 0; i < width; ++i) {
      out[i] = narrow<S>(Function::value(widen(in.x[i]) + widen(in.bias[i])));
    }
    store_pack(y + at.element, out);
  }
};

/// y = f(gate + bias, up + bias), gate and up side by side in rows of 2 `columns`.
template <typename Function, typename S>
struct ActivateGated {
  static constexpr int in_flight = 2;
  S const* x;
  S const* bias;  ///< or null
  S* y;
  std::int64_t columns;

  template <int width>
  struct Loaded {
    Pack<S, width> gate, up, gate_bias, up_bias;
  };
  template <int width>
  __device__ Loaded<width> load(ElementPlace at) const {
    S const* const gate = x + at.element + at.row * columns;
    return {load_pack<width>(gate), load_pack<width>(gate + columns),
            load_pack_or_zeros<width>(bias, at.column),
            load_pack_or_zeros<width>(bias, at.column + columns)};
  }
  template <int width>
  __device__ void finish(ElementPlace at, Loaded<width> const& in) const {
    Pack<S, width> out;
#pragma unroll
    for (int i = 0; i < width; ++i) {
      out[i] = narrow<S>(Function::value(widen(in.gate[i]) + widen(in.gate_bias[i]),
                                         widen(in.up[i]) + widen(in.up_bias[i])));
    }
    store_pack(y + at.element, out);
  }
};

template <typename Function>
void activate(CudaContext const& context, KernelCall const& call) {
  with_storage_type(call.kind, call.reads[0].type, [&](auto tag) {
    using S = decltype(tag);
    std::int64_t const f = expect_activation<S>(call, call.reads[0], call.writes[0], 1);
    Activate<Function, S> const body{elements_of<S>(call.reads[0]), optional_bias<S>(call, 1, f),
                                     elements_of<S>(call.writes[0])};
    constexpr int width = pack_width<S>;
    launch_element_wise<width>(context.stream, extent_of(call.reads[0].shape.elements() / f, f),
                               can_pack(width, body.x, body.bias, body.y), body);
  });
}

template <typename Function>
void activate_gated(CudaContext const& context, KernelCall const& call) {
  with_storage_type(call.kind, call.reads[0].type, [&](auto tag) {
    using S = decltype(tag);
    Operand const& y = call.writes[0];
    std::int64_t const f = expect_activation<S>(call, call.reads[0], y, 2);
    ActivateGated<Function, S> const body{elements_of<S>(call.reads[0]),
                                          optional_bias<S>(call, 1, 2 * f), elements_of<S>(y), f};
    constexpr int width = pack_width<S>;
    launch_element_wise<width>(context.stream, extent_of(y.shape.elements() / f, f),
                               can_pack(width, body.x, body.bias, body.y), body);
  });
}

}  // namespace

void gelu(CudaContext const& context, KernelCall const& call) { activate<Gelu>(context, call); }
void relu(CudaContext const& context, KernelCall const& call) { activate<Relu>(context, call); }
void geglu(CudaContext const& context, KernelCall const& call) {
  activate_gated<Gated<Gelu>>(context, call);
}
void swiglu(CudaContext const& context, KernelCall const& call) {
  activate_gated<Gated<Silu>>(context, call);
}
void swiglu_clamped(CudaContext const& context, KernelCall const& call) {
  activate_gated<ClampedSwiglu>(context, call);
}

}  // namespace stagecraft::cuda_ops
