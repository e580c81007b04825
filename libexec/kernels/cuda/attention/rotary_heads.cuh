#pragma once

#include <cmath>
#include <cstdint>

#include "libexec/kernels/cuda/launch.cuh"
#include "libexec/kernels/cuda/pack.cuh"
#include "libexec/kernels/formulas.hpp"
#include "libexec/kernels/operands/head_operands.hpp"

/// What kernels with rotary positions share. A block has one position, so that sines and cosines
/// are computed once for all heads.
namespace stagecraft::cuda_ops {

inline constexpr int rotary_threads = 256;
/// The number of pairs (i, i + half) of a head whose sines are kept at a time.
inline constexpr int most_rotary_pairs = 128;

/// The angles by which the pairs of elements at a position are rotated.
struct RotaryAngles {
  double base;
  double direction;   ///< 1 or -1
  std::int64_t half;  ///< pairs of a head
  std::int64_t rows;  ///< positions of the rank
  SequencePart sequence;

  /// Calls body(first, count, cosine, sine) for pairs [first, first + count) of a position, until
  /// all had their turn. All threads of the block call it.
  template <typename C, typename Body>
  __device__ void for_pairs(std::int64_t position, Body const& body) const {
    __shared__ C cosine[most_rotary_pairs];
    __shared__ C sine[most_rotary_pairs];
    auto const row = static_cast<double>(sequence.row_of(position, rows));
    for (std::int64_t first = 0; first < half; first += most_rotary_pairs) {
      std::int64_t const left = half - first;
      auto const count = static_cast<unsigned>(left < most_rotary_pairs ? left : most_rotary_pairs);
      __syncthreads();
      if (threadIdx.x < count) {
        double const angle = row * rotary_frequency(base, first + threadIdx.x, 2 * half);
        cosine[threadIdx.x] = static_cast<C>(::cos(angle));
        sine[threadIdx.x] = static_cast<C>(direction * ::sin(angle));
      }
      __syncthreads();
      body(static_cast<unsigned>(first), count, cosine, sine);
    }
  }
};

/// Heads of every token, before and after.
template <typename S>
struct TurnedHeads {
  HeadsView<S> from, to;
  std::int64_t sequences, heads;
};

/// Turns `count` pairs from `first` on of every head at one position. `from` and `to` may be the
/// same memory.
template <typename S, int width>
__device__ void turn_heads(TurnedHeads<S> const& all,
                           std::int64_t position,
                           unsigned first,
                           unsigned count,
                           std::int64_t half,
                           Compute<S> const* cosine,
                           Compute<S> const* sine) {
  using C = Compute<S>;
  unsigned const packs = count / width;
  auto const heads = static_cast<unsigned>(all.heads);
  auto const items = static_cast<unsigned>(all.sequences) * heads * packs;
  for (unsigned item = threadIdx.x; item < items; item += rotary_threads) {
    unsigned const pair = item % packs * width;
    unsigned const rest = item / packs;
    S const* const x = all.from.head(position, rest / heads, rest % heads) + first + pair;
    S* const y = all.to.head(position, rest / heads, rest % heads) + first + pair;
    Pack<S, width> const low = load_pack<width>(x);
    Pack<S, width> const high = load_pack<width>(x + half);
    Pack<S, width> new_low;
    Pack<S, width> new_high;
#pragma unroll
    for (int i = 0; i < width; ++i) {
      RotaryPair<C> const out =
          turned(RotaryPair<C>{widen(low[i]), widen(high[i])}, cosine[pair + i], sine[pair + i]);
      new_low[i] = narrow<S>(out.low);
      new_high[i] = narrow<S>(out.high);
    }
    store_pack(y, new_low);
    store_pack(y + half, new_high);
  }
}

}  // namespace stagecraft::cuda_ops
