#include "libexec/kernels/cuda/cuda_op_kernels.hpp"
#include "libexec/kernels/cuda/element_wise.cuh"
#include "libexec/kernels/formulas.hpp"

namespace stagecraft::cuda_ops {
namespace {

/// y = cap tanh(scale x / cap).
template <typename S>
struct Softcap {
  static constexpr int in_flight = 2;
  S const* x;
  S* y;
  Compute<S> cap;
  Compute<S> factor;  ///< scale / cap

  template <int width>
  struct Loaded {
    Pack<S, width> x;
  };
  template <int width>
  __device__ Loaded<width> load(ElementPlace at) const {
    return {load_pack<width>(x + at.element)};
  }
  template <int width>
  __device__ void finish(ElementPlace at, Loaded<width> const& in) const {
    Pack<S, width> out;
#pragma unroll
    for (int i = 0; i < width; ++i) out[i] = narrow<S>(capped(widen(in.x[i]) * factor, cap).value);
    store_pack(y + at.element, out);
  }
};

/// d = d (1 - tanh(scale x / cap)^2) scale, in place.
template <typename S>
struct SoftcapBackward {
  static constexpr int in_flight = 2;
  S* d;
  S const* x;
  Compute<S> cap;
  Compute<S> factor;
  Compute<S> scale;

  template <int width>
  struct Loaded {
    Pack<S, width> d, x;
  };
  template <int width>
  __device__ Loaded<width> load(ElementPlace at) const {
    return {load_pack<width>(d + at.element), load_pack<width>(x + at.element)};
  }
  template <int width>
  __device__ void finish(ElementPlace at, Loaded<width> const& in) const {
    Pack<S, width> out;
#pragma unroll
    for (int i = 0; i < width; ++i) {
      out[i] = narrow<S>(widen(in.d[i]) * capped(widen(in.x[i]) * factor, cap).slope * scale);
    }
    store_pack(d + at.element, out);
  }
};

}  // namespace

void softcap(CudaContext const& context, KernelCall const& call) {
  Operand const& x = call.reads[0];
  auto const& attributes = attributes_of<SoftcapAttributes>(call);
  with_storage_type(call.kind, x.type, [&](auto tag) {
    using S = decltype(tag);
    using C = Compute<S>;
    expect_tensor(call, x, element_type<S>(), x.shape);
    expect_tensor(call, call.writes[0], element_type<S>(), x.shape);
    Softcap<S> const body{elements_of<S>(x), elements_of<S>(call.writes[0]),
                          static_cast<C>(attributes.cap),
                          static_cast<C>(attributes.scale / attributes.cap)};
    constexpr int width = pack_width<S>;
    launch_element_wise<width>(context.stream, flat_extent(x.shape.elements()),
                               can_pack(width, body.x, body.y), body);
  });
}

void softcap_backward(CudaContext const& context, KernelCall const& call) {
  Operand const& d = call.reads[0];
  auto const& attributes = attributes_of<SoftcapAttributes>(call);
  with_storage_type(call.kind, d.type, [&](auto tag) {
    using S = decltype(tag);
    using C = Compute<S>;
    expect_tensor(call, call.reads[1], element_type<S>(), d.shape);
    expect_tensor(call, call.writes[0], element_type<S>(), d.shape);
    SoftcapBackward<S> const body{elements_of<S>(call.writes[0]), elements_of<S>(call.reads[1]),
                                  static_cast<C>(attributes.cap),
                                  static_cast<C>(attributes.scale / attributes.cap),
                                  static_cast<C>(attributes.scale)};
    constexpr int width = pack_width<S>;
    launch_element_wise<width>(context.stream, flat_extent(d.shape.elements()),
                               can_pack(width, body.d, body.x), body);
  });
}

}  // namespace stagecraft::cuda_ops
