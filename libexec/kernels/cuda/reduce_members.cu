#include <cstddef>

#include "libexec/kernels/cuda/element_wise.cuh"
#include "libexec/kernels/cuda/reduce_members.hpp"

namespace stagecraft {
namespace {

/// Pointers that fit a launch.
constexpr std::size_t most_sources = 32;

/// destination = sum, or maximum, of the sources in their order.
template <typename S>
struct Reduce {
  using C = Compute<S>;
  static constexpr int in_flight = 2;
  S const* sources[most_sources];
  int count;
  bool is_sum;
  S* destination;

  template <int width>
  struct Loaded {
    C result[width];
  };
  template <int width>
  __device__ Loaded<width> load(ElementPlace at) const {
    Loaded<width> all{};
    Pack<S, width> const start = load_pack<width>(sources[0] + at.element);
#pragma unroll
    for (int i = 0; i < width; ++i) all.result[i] = widen(start[i]);
    for (int k = 1; k < count; ++k) {
      Pack<S, width> const source = load_pack<width>(sources[k] + at.element);
#pragma unroll
      for (int i = 0; i < width; ++i) {
        C const result = all.result[i];
        C const value = widen(source[i]);
        // A NaN on either side is kept.
        all.result[i] =
            is_sum ? result + value : (value > result || value != value ? value : result);
      }
    }
    return all;
  }
  template <int width>
  __device__ void finish(ElementPlace at, Loaded<width> const& in) const {
    Pack<S, width> out;
#pragma unroll
    for (int i = 0; i < width; ++i) out[i] = narrow<S>(in.result[i]);
    store_pack(destination + at.element, out);
  }
};

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
  with_storage_type(OpKind::all_reduce, type, [&](auto tag) {
    using S = decltype(tag);
    constexpr int width = pack_width<S>;
    Reduce<S> body{{},
                   static_cast<int>(sources.size()),
                   reduction == Reduction::sum,
                   static_cast<S*>(destination)};
    bool fits = can_pack(width, body.destination);
    for (std::size_t k = 0; k < sources.size(); ++k) {
      body.sources[k] = static_cast<S const*>(sources[k]);
      fits = fits && can_pack(width, body.sources[k]);
    }
    launch_element_wise<width>(stream, flat_extent(elements), fits, body);
  });
}

}  // namespace stagecraft
