#include "libexec/kernels/cuda/cuda_op_kernels.hpp"
#include "libexec/kernels/cuda/element_wise.cuh"
#include "libexec/kernels/formulas.hpp"
#include "libexec/kernels/operands/attention_operands.hpp"

namespace stagecraft::cuda_ops {
namespace {

/// y = cap tanh(scale x / cap).
template <typename S>
struct Softcap {
  static constexpr int in_flight = 2;
  SoftcapOperands<S> of;

  template <int width>
  struct Loaded {
    Pack<S, width> x;
  };
  template <int width>
  __device__ Loaded<width> load(ElementPlace at) const {
    return {load_pack<width>(of.x + at.element)};
  }
  template <int width>
  __device__ void finish(ElementPlace at, Loaded<width> const& in) const {
    Pack<S, width> out;
#pragma unroll
    for (int i = 0; i < width; ++i)
      out[i] = narrow<S>(capped(widen(in.x[i]) * of.factor, of.cap).value);
    store_pack(of.y + at.element, out);
  }
};

/// d = d (1 - tanh(scale x / cap)^2) scale, in place.
template <typename S>
struct SoftcapBackward {
  static constexpr int in_flight = 2;
  SoftcapOperands<S> of;

  template <int width>
  struct Loaded {
    Pack<S, width> d, x;
  };
  template <int width>
  __device__ Loaded<width> load(ElementPlace at) const {
    return {load_pack<width>(of.y + at.element), load_pack<width>(of.x + at.element)};
  }
  template <int width>
  __device__ void finish(ElementPlace at, Loaded<width> const& in) const {
    Pack<S, width> out;
#pragma unroll
    for (int i = 0; i < width; ++i) {
      out[i] =
          narrow<S>(widen(in.d[i]) * capped(widen(in.x[i]) * of.factor, of.cap).slope * of.scale);
    }
    store_pack(of.y + at.element, out);
  }
};

template <template <typename> typename Body>
void cap_scores(CudaContext const& context, KernelCall const& call) {
  with_storage_type(call, [&](auto tag) {
    using S = decltype(tag);
    auto const of = expect_softcap<S>(call);
    constexpr int width = pack_width<S>;
    launch_element_wise<width>(context.stream, flat_extent(of.elements),
                               can_pack(width, of.x, of.y), Body<S>{of});
  });
}

}  // namespace

void softcap(CudaContext const& context, KernelCall const& call) {
  cap_scores<Softcap>(context, call);
}

void softcap_backward(CudaContext const& context, KernelCall const& call) {
  cap_scores<SoftcapBackward>(context, call);
}

}  // namespace stagecraft::cuda_ops
