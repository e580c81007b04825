#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "libexec/kernels/cuda/pack.cuh"
#include "libexec/kernels/cuda/row_block.cuh"
#include "libexec/kernels/element.hpp"

/// Products of small matrices by the threads of a warp: on tensor cores if elements have 16 bits,
/// otherwise as sums of products in the elements' own type. A fragment is one thread's part.
/// Source: PTX ISA 8.0, "Matrix Fragments for mma.m16n8k16 with floating point type".
namespace stagecraft {

/// A thread's position in fragments.
struct WarpLane {
  int group = static_cast<int>(threadIdx.x) % warp_threads / 4;
  int pair = static_cast<int>(threadIdx.x) % 4 * 2;
};

/// Two adjacent elements of a fragment: those of 16 bits in one register, as instructions of tensor
/// cores take them.
template <typename S, bool in_register = is_narrow<S>>
struct ElementPair {
  S value[2];

  __device__ static ElementPair of(S first, S second) { return {{first, second}}; }
  /// From an even index.
  __device__ static ElementPair at(S const* from) {
    Pack<S, 2> const two = load_pack<2>(from);
    return of(two[0], two[1]);
  }
  __device__ S operator[](int i) const { return value[i]; }
};
template <typename S>
struct ElementPair<S, true> {
  std::uint32_t bits;

  __device__ static ElementPair of(S first, S second) {
    return {static_cast<std::uint32_t>(first.bits) | static_cast<std::uint32_t>(second.bits) << 16};
  }
  __device__ static ElementPair at(S const* from) {
#ifdef __CUDA_ARCH__
    return {*reinterpret_cast<std::uint32_t const*>(from)};
#else
    Pack<S, 2> const two = load_pack<2>(from);
    return of(two[0], two[1]);
#endif
  }
  __device__ S operator[](int i) const {
    return {static_cast<std::uint16_t>(i == 0 ? bits & 0xFFFFU : bits >> 16)};
  }
};

/// The fragment of a left matrix [16, 16]: row `group`, columns pair and pair + 1; the same of row
/// group + 8; the same of both rows 8 columns later.
template <typename S>
struct LeftFragment {
  ElementPair<S> pair[4];
};

/// The fragment of a right matrix [16, 8]: rows pair and pair + 1 of column `group`; the same 8
/// rows later.
template <typename S>
struct RightFragment {
  ElementPair<S> pair[2];
};

/// The fragment of sums [16, 8]: row `group`, columns pair and pair + 1; the same of row group + 8.
template <typename C>
struct SumFragment {
  C value[4];
};

/// Rows [row, row + 16) and columns [column, column + 16) of a tile whose rows are `stride` apart.
template <typename S>
__device__ LeftFragment<S> left_of(S const* tile, int stride, int row, int column) {
  WarpLane const lane;
  S const* const from = tile + (row + lane.group) * stride + column + lane.pair;
  return {{ElementPair<S>::at(from), ElementPair<S>::at(from + 8 * stride),
           ElementPair<S>::at(from + 8), ElementPair<S>::at(from + 8 * stride + 8)}};
}

#ifdef __CUDA_ARCH__
/// The fragment whose 16 parts of 16 bytes the lanes 0 to 15 give the addresses of, all in shared
/// memory: transposed, those of 16 rows; otherwise those of 8 rows, then those 8 columns later.
template <bool transposed, typename S>
__device__ RightFragment<S> load_right(S const* from) {
  static_assert(is_narrow<S>);
  RightFragment<S> right{};
  auto const address = static_cast<std::uint32_t>(__cvta_generic_to_shared(from));
#define STAGECRAFT_LOAD(form)                                                     \
  asm volatile("ldmatrix.sync.aligned.m8n8.x2" form ".shared.b16 {%0, %1}, [%2];" \
               : "=r"(right.pair[0].bits), "=r"(right.pair[1].bits)               \
               : "r"(address)                                                     \
               : "memory")
  if constexpr (transposed) {
    STAGECRAFT_LOAD(".trans");
  } else {
    STAGECRAFT_LOAD("");
  }
#undef STAGECRAFT_LOAD
  return right;
}
#endif

/// The transpose of rows [row, row + 8) and columns [column, column + 16) of a tile in shared
/// memory.
template <typename S>
__device__ RightFragment<S> right_of_rows(S const* tile, int stride, int row, int column) {
#ifdef __CUDA_ARCH__
  if constexpr (is_narrow<S>) {
    int const part = static_cast<int>(threadIdx.x) % 16;
    return load_right<false>(tile + (row + part % 8) * stride + column + part / 8 * 8);
  }
#endif
  WarpLane const lane;
  S const* const from = tile + (row + lane.group) * stride + column + lane.pair;
  return {{ElementPair<S>::at(from), ElementPair<S>::at(from + 8)}};
}

/// Rows [row, row + 16) and columns [column, column + 8) of a tile in shared memory.
template <typename S>
__device__ RightFragment<S> right_of_columns(S const* tile, int stride, int row, int column) {
#ifdef __CUDA_ARCH__
  if constexpr (is_narrow<S>) {
    int const part = static_cast<int>(threadIdx.x) % 16;
    return load_right<true>(tile + (row + part) * stride + column);
  }
#endif
  WarpLane const lane;
  S const* const from = tile + (row + lane.pair) * stride + column + lane.group;
  return {{ElementPair<S>::of(from[0], from[stride]),
           ElementPair<S>::of(from[8 * stride], from[9 * stride])}};
}

/// Converts two neighbouring sums [16, 8] to the left matrix of a product.
template <typename S, typename C>
__device__ LeftFragment<S> left_of(SumFragment<C> const& first, SumFragment<C> const& second) {
  auto const pair = [](C const* sums) {
    return ElementPair<S>::of(narrow<S>(sums[0]), narrow<S>(sums[1]));
  };
  return {{pair(first.value), pair(first.value + 2), pair(second.value), pair(second.value + 2)}};
}

/// What the lane `source` of the warp gives.
template <typename Fragment>
__device__ Fragment of_lane(Fragment fragment, int source) {
  unsigned long long words[sizeof(Fragment) / sizeof(unsigned long long)];
  static_assert(sizeof(words) == sizeof(Fragment));
  std::memcpy(words, &fragment, sizeof(words));
  for (unsigned long long& word : words) word = __shfl_sync(0xFFFFFFFFU, word, source);
  std::memcpy(&fragment, words, sizeof(words));
  return fragment;
}

/// sums += left x right. The whole warp calls it.
template <typename S>
__device__ void add_product(SumFragment<Compute<S>>& sums,
                            LeftFragment<S> const& left,
                            RightFragment<S> const& right) {
#ifdef __CUDA_ARCH__
#define STAGECRAFT_MULTIPLY(type)                                                        \
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." type "." type                    \
               ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"    \
               : "+f"(sums.value[0]), "+f"(sums.value[1]), "+f"(sums.value[2]),          \
                 "+f"(sums.value[3])                                                     \
               : "r"(left.pair[0].bits), "r"(left.pair[1].bits), "r"(left.pair[2].bits), \
                 "r"(left.pair[3].bits), "r"(right.pair[0].bits), "r"(right.pair[1].bits))
  if constexpr (std::is_same_v<S, BFloat16>) {
    STAGECRAFT_MULTIPLY("bf16");
    return;
  } else if constexpr (std::is_same_v<S, Float16>) {
    STAGECRAFT_MULTIPLY("f16");
    return;
  }
#undef STAGECRAFT_MULTIPLY
#endif
  // The four lanes of this group hold row `group`; those of group `pair` hold column pair.
  WarpLane const lane;
#pragma unroll 1
  for (int holder = 0; holder < 4; ++holder) {
    LeftFragment<S> const rows = of_lane(left, lane.group * 4 + holder);
    RightFragment<S> const first = of_lane(right, lane.pair * 4 + holder);
    RightFragment<S> const second = of_lane(right, (lane.pair + 1) * 4 + holder);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
      for (int k = 0; k < 2; ++k) {
        auto const upper = widen(rows.pair[2 * half][k]);
        auto const lower = widen(rows.pair[2 * half + 1][k]);
        sums.value[0] += upper * widen(first.pair[half][k]);
        sums.value[1] += upper * widen(second.pair[half][k]);
        sums.value[2] += lower * widen(first.pair[half][k]);
        sums.value[3] += lower * widen(second.pair[half][k]);
      }
    }
  }
}

}  // namespace stagecraft
