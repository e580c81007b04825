#pragma once

#include <cuda_runtime.h>

#include <cstdint>
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

/// The fragment of a left matrix [16, 16]: row `group`, columns pair and pair + 1; the same of row
/// group + 8; the same of both rows 8 columns later.
template <typename S>
struct LeftFragment {
  S value[8];
};

/// The fragment of a right matrix [16, 8]: rows pair and pair + 1 of column `group`; the same 8
/// rows later.
template <typename S>
struct RightFragment {
  S value[4];
};

/// The fragment of sums [16, 8]: row `group`, columns pair and pair + 1; the same of row group + 8.
template <typename C>
struct SumFragment {
  C value[4];
};

/// Two adjacent elements at an even index.
template <typename S>
__device__ inline void load_two(S const* from, S* to) {
  Pack<S, 2> const two = load_pack<2>(from);
  to[0] = two[0];
  to[1] = two[1];
}

/// Rows [row, row + 16) and columns [column, column + 16) of a tile whose rows are `stride` apart.
template <typename S>
__device__ LeftFragment<S> left_of(S const* tile, int stride, int row, int column) {
  WarpLane const lane;
  S const* const from = tile + (row + lane.group) * stride + column + lane.pair;
  LeftFragment<S> left;
  load_two(from, left.value);
  load_two(from + 8 * stride, left.value + 2);
  load_two(from + 8, left.value + 4);
  load_two(from + 8 * stride + 8, left.value + 6);
  return left;
}

/// The transpose of rows [row, row + 8) and columns [column, column + 16) of a tile.
template <typename S>
__device__ RightFragment<S> right_of_rows(S const* tile, int stride, int row, int column) {
  WarpLane const lane;
  S const* const from = tile + (row + lane.group) * stride + column + lane.pair;
  RightFragment<S> right;
  load_two(from, right.value);
  load_two(from + 8, right.value + 2);
  return right;
}

#ifdef __CUDA_ARCH__
/// Two elements as one register, and back.
template <typename S>
__device__ inline std::uint32_t bits_of(S const* two) {
  return static_cast<std::uint32_t>(two[0].bits) | static_cast<std::uint32_t>(two[1].bits) << 16;
}
template <typename S>
__device__ inline void set_bits(S* two, std::uint32_t bits) {
  two[0].bits = static_cast<std::uint16_t>(bits & 0xFFFFU);
  two[1].bits = static_cast<std::uint16_t>(bits >> 16);
}
#endif

/// Rows [row, row + 16) and columns [column, column + 8) of a tile in shared memory.
template <typename S>
__device__ RightFragment<S> right_of_columns(S const* tile, int stride, int row, int column) {
  RightFragment<S> right;
#ifdef __CUDA_ARCH__
  if constexpr (is_narrow<S>) {
    // Lanes 0 to 15 give the addresses of the 16 rows, of 16 bytes each.
    S const* const from = tile + (row + static_cast<int>(threadIdx.x) % 16) * stride + column;
    auto const address = static_cast<std::uint32_t>(__cvta_generic_to_shared(from));
    std::uint32_t upper = 0;
    std::uint32_t lower = 0;
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
                 : "=r"(upper), "=r"(lower)
                 : "r"(address)
                 : "memory");
    set_bits(right.value, upper);
    set_bits(right.value + 2, lower);
    return right;
  }
#endif
  WarpLane const lane;
  S const* const from = tile + (row + lane.pair) * stride + column + lane.group;
  right.value[0] = from[0];
  right.value[1] = from[stride];
  right.value[2] = from[8 * stride];
  right.value[3] = from[9 * stride];
  return right;
}

/// Converts two neighbouring sums [16, 8] to the left matrix of a product.
template <typename S, typename C>
__device__ LeftFragment<S> left_of(SumFragment<C> const& first, SumFragment<C> const& second) {
  LeftFragment<S> left;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    left.value[i] = narrow<S>(first.value[i]);
    left.value[4 + i] = narrow<S>(second.value[i]);
  }
  return left;
}

/// sums += left x right. The whole warp calls it.
template <typename S>
__device__ void add_product(SumFragment<Compute<S>>& sums,
                            LeftFragment<S> const& left,
                            RightFragment<S> const& right) {
#ifdef __CUDA_ARCH__
#define STAGECRAFT_MULTIPLY(type)                                                             \
  asm volatile(                                                                               \
      "mma.sync.aligned.m16n8k16.row.col.f32." type "." type                                  \
      ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"                  \
      : "+f"(sums.value[0]), "+f"(sums.value[1]), "+f"(sums.value[2]), "+f"(sums.value[3])    \
      : "r"(bits_of(left.value)), "r"(bits_of(left.value + 2)), "r"(bits_of(left.value + 4)), \
        "r"(bits_of(left.value + 6)), "r"(bits_of(right.value)), "r"(bits_of(right.value + 2)))
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
  using C = Compute<S>;
  WarpLane const lane;
  auto const from = [](S value, int source) {
    return __shfl_sync(0xFFFFFFFFU, widen(value), source);
  };
#pragma unroll 2
  for (int k = 0; k < 16; ++k) {
    int const place = k / 8 * 4 + k % 2;
    int const holder = k % 8 / 2;
    C const upper = from(left.value[place], lane.group * 4 + holder);
    C const lower = from(left.value[place + 2], lane.group * 4 + holder);
    C const first = from(right.value[place / 4 * 2 + k % 2], lane.pair * 4 + holder);
    C const second = from(right.value[place / 4 * 2 + k % 2], (lane.pair + 1) * 4 + holder);
    sums.value[0] += upper * first;
    sums.value[1] += upper * second;
    sums.value[2] += lower * first;
    sums.value[3] += lower * second;
  }
}

}  // namespace stagecraft
