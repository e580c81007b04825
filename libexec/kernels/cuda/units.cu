#include <algorithm>

#include "libexec/kernels/cuda/cuda_op_kernels.hpp"
#include "libexec/kernels/cuda/element_wise.cuh"
#include "libexec/kernels/operands/unit_operands.hpp"

namespace stagecraft::cuda_ops {
namespace {

template <typename From, typename To>
struct CopyPart {
  static constexpr int in_flight = 4;
  CopiedPart<From, To> of;

  template <int width>
  struct Loaded {
    Pack<From, width> values;
  };
  template <int width>
  __device__ Loaded<width> load(ElementPlace at) const {
    return {load_pack<width>(of.from + at.element)};
  }
  template <int width>
  __device__ void finish(ElementPlace at, Loaded<width> const& in) const {
    Pack<To, width> out;
#pragma unroll
    for (int i = 0; i < width; ++i) out[i] = converted<To>(in.values[i]);
    store_pack(of.to + at.element, out);
  }
};

}  // namespace

void pack_unit(CudaContext const& context, KernelCall const& call) {
  for_copied_parts(call, [&]<typename From, typename To>(CopiedPart<From, To> const& part) {
    constexpr int width = std::min(pack_width<From>, pack_width<To>);
    launch_element_wise<width>(context.stream, flat_extent(part.count),
                               can_pack(width, part.from, part.to), CopyPart<From, To>{part});
  });
}

void unpack_unit(CudaContext const& context, KernelCall const& call) { pack_unit(context, call); }

}  // namespace stagecraft::cuda_ops
