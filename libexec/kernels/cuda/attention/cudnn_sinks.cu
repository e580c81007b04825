#include "libexec/kernels/cuda/attention/cudnn_attention.hpp"
#include "libexec/kernels/cuda/launch.cuh"
#include "libexec/kernels/element.hpp"

namespace stagecraft {
namespace {

template <typename S>
__global__ void widen_all(S const* from, std::int64_t elements, float* to) {
  for (std::int64_t i = threadIdx.x; i < elements; i += blockDim.x) {
    to[i] = static_cast<float>(widen(from[i]));
  }
}

}  // namespace

void widen_sinks(
    ElementType type, void const* sinks, std::int64_t heads, float* to, CUstream_st* stream) {
  with_storage_type(OpKind::flash_attention, type, [&](auto tag) {
    using S = decltype(tag);
    launch(widen_all<S>, 1, dim3{128}, stream, static_cast<S const*>(sinks), heads, to);
  });
}

}  // namespace stagecraft
