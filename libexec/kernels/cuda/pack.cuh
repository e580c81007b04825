#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "libexec/kernels/element.hpp"

namespace stagecraft {

/// The bytes that one thread reads or writes in one access.
inline constexpr int access_bytes = 16;

/// Elements of S in one access.
template <typename S>
inline constexpr int pack_width = access_bytes / static_cast<int>(sizeof(S));

/// `width` adjacent elements, which are read and written in accesses of at most 16 bytes.
template <typename S, int width>
struct alignas(sizeof(S) * width) Pack {
  S value[width];

  __device__ S& operator[](int i) { return value[i]; }
  __device__ S const& operator[](int i) const { return value[i]; }
};

/// Pre: `from` is aligned to the pack, as can_pack() says; also below.
template <int width, typename S>
__device__ inline Pack<S, width> load_pack(S const* from) {
  return *reinterpret_cast<Pack<S, width> const*>(from);
}

/// Returns zeros if `from` is null.
template <int width, typename S>
__device__ inline Pack<S, width> load_pack_or_zeros(S const* from, std::int64_t place) {
  if (from != nullptr) return load_pack<width>(from + place);
  Pack<S, width> zeros;
#pragma unroll
  for (int i = 0; i < width; ++i) zeros[i] = S{};
  return zeros;
}

template <int width, typename S>
__device__ inline void store_pack(S* to, Pack<S, width> const& pack) {
  *reinterpret_cast<Pack<S, width>*>(to) = pack;
}

/// Whether packs of `width` can start at these addresses; null is allowed.
template <typename... S>
bool can_pack(int width, S const*... addresses) {
  return (... && (reinterpret_cast<std::uintptr_t>(addresses) %
                      (sizeof(S) * static_cast<unsigned>(width)) ==
                  0));
}

}  // namespace stagecraft
