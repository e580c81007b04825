#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "libexec/kernels/cuda/attention/heads_packing.hpp"
#include "libexec/kernels/cuda/attention/warp_product.cuh"
#include "libexec/kernels/cuda/cuda_context.hpp"
#include "libexec/kernels/cuda/draw_bits.cuh"
#include "libexec/kernels/cuda/launch.cuh"
#include "libexec/kernels/dropout.hpp"
#include "libexec/kernels/formulas.hpp"
#include "libexec/kernels/operands/attention_operands.hpp"
#include "libexec/kernels/operands/head_operands.hpp"

/// What the forward and the backward of flash attention on a device share.
namespace stagecraft {

/// Tiles in shared memory for heads of up to `depth` elements. Rows have one access more than
/// depth, which puts the rows of a fragment into different banks.
template <typename S, int depth>
struct FlashTile {
  static constexpr int row_bytes = depth * static_cast<int>(sizeof(S));
  static constexpr int stride = depth + pack_width<S>;
  /// Rows of a block, 16 for each warp.
  static constexpr int rows = row_bytes <= 512 ? 64 : row_bytes <= 1024 ? 32 : 16;
  static constexpr int threads = rows / 16 * warp_threads;
  /// The blocks of forward that a multiprocessor should run at once: fewer do not hide how long
  /// shared memory takes; for more, or for larger heads, there are not enough registers.
  static constexpr int blocks = is_narrow<S> && row_bytes <= 256 ? 3 : 1;
  /// The keys that forward processes at a time.
  static constexpr int keys = row_bytes <= 256 ? 64 : row_bytes <= 512 ? 32 : 16;
  /// The rows of the other operand that backward processes at a time.
  static constexpr int others = row_bytes <= 256 ? 32 : 16;

  /// How far loops over fragments are unrolled: completely, which keeps fragments in registers
  /// (except dk and dv of heads of more than 128 elements, which do not fit).
  static constexpr int flat = is_narrow<S> ? 64 : 1;

  static constexpr std::size_t bytes(int tile_rows) {
    return static_cast<std::size_t>(tile_rows * stride) * sizeof(S);
  }
};

/// Calls body(depth) with an integral constant. Types that do not use tensor cores serve as a
/// reference and have two kernels; the one of fp64 for large heads needs 132 KB of shared memory,
/// which compute capabilities 8.6 and 8.9 do not have.
/// \throws std::logic_error  if heads have more elements than any kernel supports.
template <typename S, typename Body>
void with_flash_depth(OpKind kind, std::int64_t d, Body const& body) {
  if (d <= 64) return body(std::integral_constant<int, 64>{});
  if constexpr (is_narrow<S>) {
    if (d <= 128) return body(std::integral_constant<int, 128>{});
  }
  constexpr int most = most_cuda_flash_elements;
  if (d <= most) return body(std::integral_constant<int, most>{});
  refuse(kind, "heads of more than 256 elements have no kernel");
}

/// One head of one sequence: its rows are positions.
template <typename S>
struct FlashHead {
  S* first;
  std::int64_t stride;

  __device__ FlashHead(HeadsView<S> const& view, std::int64_t sequence, std::int64_t head)
      : first{view.head(0, sequence, head)}, stride{view.position_stride} {}
  __device__ S* row(std::int64_t position) const { return first + position * stride; }
};

/// Copies positions [first, first + count) of a head of d elements into a tile, by all threads of
/// the block. The tile is zero after the head's elements, up to a multiple of 16, and from position
/// `end` on.
/// \param packed  whether rows can be read in packs
template <typename S>
__device__ void load_tile(FlashHead<S const> const& head,
                          std::int64_t first,
                          int count,
                          std::int64_t end,
                          std::int64_t d_elements,
                          bool packed,
                          int stride,
                          S* tile) {
  auto const d = static_cast<int>(d_elements);
  int const columns = (d + 15) / 16 * 16;
  constexpr int width = pack_width<S>;
  int const packs = columns / width;
  for (int i = static_cast<int>(threadIdx.x); i < count * packs; i += blockDim.x) {
    int const row = i / packs;
    int const column = i % packs * width;
    std::int64_t const position = first + row;
    Pack<S, width> values{};
    if (position < end) {
      S const* const from = head.row(position) + column;
      if (packed && column < d) {
        values = load_pack<width>(from);
      } else {
#pragma unroll
        for (int j = 0; j < width; ++j) {
          if (column + j < d) values[j] = from[j];
        }
      }
    }
    store_pack(tile + row * stride + column, values);
  }
}

/// Writes this lane's columns of one of its two rows of sums [16, 8 x tiles], times `factor`, to a
/// head of d elements. `half`: 0 for row `group`, 1 for row `group` + 8.
template <typename S, int tiles>
__device__ void store_half(S* row,
                           std::int64_t d,
                           SumFragment<Compute<S>> const (&sums)[tiles],
                           int half,
                           Compute<S> factor = 1) {
  int const pair = WarpLane{}.pair;
#pragma unroll FlashTile < S, 8 * tiles> ::flat
  for (int tile = 0; tile < tiles; ++tile) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      int const column = 8 * tile + pair + i;
      if (column < d) row[column] = narrow<S>(sums[tile].value[2 * half + i] * factor);
    }
  }
}

/// The dropout of probabilities, drawn from a counter.
template <typename C>
struct FlashDrops {
  bool drops;
  RandomDraw draw;
  DropoutRate<C> rate;
  ProbabilityPlace place;

  FlashDrops(CudaContext const& context, KernelCall const& call, FlashSizes const& sizes)
      : drops{dropout_attributes(call).rate > 0},
        draw{call.draw},
        rate{dropout_attributes(call).rate},
        place{probability_place(
            dropout_attributes(call), context.tensor_rank, sizes.heads, sizes.s)} {}

  /// Whether keys [key, key + count) of a query's row are kept: bit i for key + i.
  template <int count>
  __device__ std::uint32_t kept(std::int64_t sequence,
                                std::int64_t head,
                                std::int64_t query,
                                std::int64_t key) const {
    std::uint64_t const element =
        place.first_of(sequence, head, query) + static_cast<std::uint64_t>(key);
    return draw_bits<count>(draw, rate.threshold, element);
  }
};

/// How scores become the exponents of probabilities: times a factor, or within a cap.
template <typename C>
struct FlashScores {
  C scale;        ///< of the products of queries and keys
  C cap;          ///< 0: none
  C relative;     ///< scale / cap, 0 without
  C inverse_cap;  ///< 0 without

  explicit FlashScores(FlashSizes const& sizes)
      : scale{static_cast<C>(sizes.scale)},
        cap{static_cast<C>(sizes.softcap)},
        relative{static_cast<C>(sizes.softcap > 0 ? sizes.scale / sizes.softcap : 0)},
        inverse_cap{static_cast<C>(sizes.softcap > 0 ? 1 / sizes.softcap : 0)} {}

  /// The factor on scores behind apply_cap().
  __device__ C factor() const { return cap > C{0} ? C{1} : scale; }
  /// Replaces products by capped scores if there is a cap. A pass of its own, so that the loops
  /// over scores have no branches without a cap.
  template <int unrolled, int tiles>
  __device__ void apply_cap(SumFragment<C> (&scores)[tiles]) const {
    if (cap == C{0}) return;
#pragma unroll unrolled
    for (int tile = 0; tile < tiles; ++tile) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        scores[tile].value[i] = capped(scores[tile].value[i] * relative, cap).value;
      }
    }
  }
};

/// The task of a block: a tile of rows of one head of one sequence.
struct FlashTask {
  std::int64_t tile, head, sequence;

  __device__ FlashTask(std::int64_t tiles, std::int64_t heads)
      : tile{blockIdx.x % tiles},
        head{blockIdx.x / tiles % heads},
        sequence{blockIdx.x / tiles / heads} {}
};

}  // namespace stagecraft
