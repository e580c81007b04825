#include <algorithm>
#include <array>
#include <cstddef>

#include "libexec/kernels/cuda/launch.cuh"
#include "libexec/kernels/cuda/reduce_members.hpp"
#include "libexec/kernels/element.hpp"

namespace stagecraft {
namespace {

constexpr int threads = 256;
/// Pointers that fit a launch.
constexpr std::size_t most_sources = 32;

template <typename S>
struct Sources {
  S const* data[most_sources];
  int count;
};

template <typename S>
__global__ void reduce(Sources<S> sources, bool is_sum, S* destination, std::int64_t elements) {
  using C = Compute<S>;
  std::int64_t const stride = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < elements;
       i += stride) {
    C result = widen(sources.data[0][i]);
    for (int k = 1; k < sources.count; ++k) {
      C const value = widen(sources.data[k][i]);
      // A NaN on either side is kept.
      result = is_sum ? result + value : (value > result || value != value ? value : result);
    }
    destination[i] = narrow<S>(result);
  }
}

}  // namespace

void reduce_on_device(Reduction reduction,
                      ElementType type,
                      std::span<void const* const> sources,
                      void* destination,
                      std::int64_t elements,
                      CUstream_st* stream) {
  if (sources.empty() || sources.size() > most_sources) {
    refuse(OpKind::all_reduce, "a device reduces 1 to 32 members");
  }
  if (elements == 0) return;
  with_storage_type(OpKind::all_reduce, type, [&](auto tag) {
    using S = decltype(tag);
    Sources<S> all{{}, static_cast<int>(sources.size())};
    for (std::size_t k = 0; k < sources.size(); ++k)
      all.data[k] = static_cast<S const*>(sources[k]);
    auto const blocks =
        static_cast<unsigned>(std::min<std::int64_t>((elements + threads - 1) / threads, 65535));
    launch(reduce<S>, blocks, threads, stream, all, reduction == Reduction::sum,
           static_cast<S*>(destination), elements);
  });
}

}  // namespace stagecraft
