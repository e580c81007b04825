#include <limits>

#include "libexec/kernels/cuda/attention/flash_tile.cuh"
#include "libexec/kernels/cuda/cuda_op_kernels.hpp"
#include "libexec/kernels/formulas.hpp"

namespace stagecraft::cuda_ops {
namespace {

template <typename S>
struct ForwardCall {
  FlashSizes sizes;
  HeadsView<S const> q, k, v;
  HeadsView<S> context;
  Compute<S>* log_sums;
  S const* sinks;  ///< [heads], or null
  bool packed;
  FlashScores<Compute<S>> scores;
  FlashDrops<Compute<S>> dropout;

  std::int64_t tiles;  ///< of queries, of one head
};

/// Combines the values of the four lanes of a group.
template <typename C, typename Combine>
__device__ C combine_group(C value, Combine const& combine) {
  value = combine(value, __shfl_xor_sync(0xFFFFFFFFU, value, 1));
  return combine(value, __shfl_xor_sync(0xFFFFFFFFU, value, 2));
}

/// The running softmax of the two rows of a lane (Milakov and Gimelshein 2018, arXiv:1805.02867).
/// Each lane sums its own columns.
template <typename C>
struct RunningRows {
  C maximum[2] = {-std::numeric_limits<C>::infinity(), -std::numeric_limits<C>::infinity()};
  C sum[2] = {0, 0};

  /// A score that no key has counts in every row, once among the lanes of a row.
  __device__ void begin_with(C sink, bool counts) {
    maximum[0] = maximum[1] = sink;
    sum[0] = sum[1] = counts ? C{1} : C{0};
  }
};

/// Makes scores of keys that the lane's row does not see minus infinity. `key`: of the first
/// column.
template <typename C, int tiles>
__device__ void hide_unseen(
    SumFragment<C> (&scores)[tiles], int half, int key, int first_key, int end_key) {
  int const pair = WarpLane{}.pair;
#pragma unroll
  for (int j = 0; j < tiles; ++j) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      int const place = key + 8 * j + pair + i;
      bool const is_seen = place >= first_key && place < end_key;
      if (!is_seen) scores[j].value[2 * half + i] = -std::numeric_limits<C>::infinity();
    }
  }
}

/// Applies dropout to the probabilities of a lane's row with keys [key, key + seen).
template <typename C, int tiles>
__device__ void drop(SumFragment<C> (&probabilities)[tiles],
                     int half,
                     int seen,
                     FlashDrops<C> const& dropout,
                     FlashTask const& task,
                     std::int64_t query,
                     std::int64_t key) {
  int const pair = WarpLane{}.pair;
#pragma unroll
  for (int j = 0; j < tiles; ++j) {
    if (8 * j >= seen) continue;
    std::uint32_t const kept =
        dropout.template kept<2>(task.sequence, task.head, query, key + 8 * j + pair);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      C& p = probabilities[j].value[2 * half + i];
      p = (kept >> i & 1U) != 0 ? p * dropout.rate.scale : C{0};
    }
  }
}

/// A tile of query rows of one head, 16 per warp, against all keys that they may see.
/// Source: Dao 2023, arXiv:2307.08691, algorithm 1.
template <typename S, int depth>
__global__ void __launch_bounds__(FlashTile<S, depth>::threads, FlashTile<S, depth>::blocks)
    attend(ForwardCall<S> all) {
  using C = Compute<S>;
  using Tile = FlashTile<S, depth>;
  constexpr int stride = Tile::stride;
  S* const k_tile = dynamic_shared<S>();
  S* const v_tile = k_tile + Tile::keys * stride;
  FlashSizes const& sizes = all.sizes;
  // The last tiles see the most keys, and come first.
  FlashTask const task{all.tiles, sizes.heads};
  std::int64_t const first = (all.tiles - 1 - task.tile) * Tile::rows;
  std::int64_t const kv_head = task.head / (sizes.heads / sizes.kv_heads);
  WarpLane const lane;
  int const warp_row = static_cast<int>(threadIdx.x) / warp_threads * 16;
  // The keys that some row of this warp sees, and those that each row of this lane does.
  std::int64_t const begin = sizes.first_key(first + warp_row);
  std::int64_t const end = sizes.end_of_keys(first + warp_row, 16);
  int first_key[2];
  int end_key[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    end_key[half] =
        static_cast<int>(sizes.attended.seen_by(first + warp_row + lane.group + 8 * half));
    first_key[half] = end_key[half] - static_cast<int>(sizes.reach());
  }

  LeftFragment<S> q[depth / 16];
  load_tile(FlashHead<S const>{all.q, task.sequence, task.head}, first, Tile::rows, sizes.s,
            sizes.d, all.packed, stride, k_tile);
  __syncthreads();
#pragma unroll Tile::flat
  for (int e = 0; e < depth; e += 16) {
    if (e < sizes.d) q[e / 16] = left_of(k_tile, stride, warp_row, e);
  }

  RunningRows<C> running;
  SumFragment<C> sums[depth / 8] = {};
  if (all.sinks != nullptr) running.begin_with(widen(all.sinks[task.head]), lane.pair == 0);
  std::int64_t const end_of_tile = sizes.end_of_keys(first, Tile::rows);
  for (std::int64_t key = sizes.first_key(first) / Tile::keys * Tile::keys; key < end_of_tile;
       key += Tile::keys) {
    __syncthreads();
    load_tile(FlashHead<S const>{all.k, task.sequence, kv_head}, key, Tile::keys, sizes.key_rows,
              sizes.d, all.packed, stride, k_tile);
    load_tile(FlashHead<S const>{all.v, task.sequence, kv_head}, key, Tile::keys, sizes.key_rows,
              sizes.value_d, all.packed, stride, v_tile);
    __syncthreads();
    // Keys of the tile that come before those which no row of this warp sees.
    auto const seen = static_cast<int>(std::min<std::int64_t>(end - key, Tile::keys));
    if (seen <= 0 || key + Tile::keys <= begin) continue;

    SumFragment<C> scores[Tile::keys / 8] = {};
#pragma unroll Tile::flat
    for (int e = 0; e < depth; e += 16) {
      if (e >= sizes.d) continue;
#pragma unroll Tile::flat
      for (int j = 0; j < Tile::keys; j += 8) {
        add_product(scores[j / 8], q[e / 16], right_of_rows(k_tile, stride, j, e));
      }
    }
    all.scores.template apply_cap<Tile::flat>(scores);
    C const factor = all.scores.factor();
#pragma unroll Tile::flat
    for (int half = 0; half < 2; ++half) {
      C maximum = running.maximum[half];
      // Only the tiles at the ends of what a row sees have keys that it does not see.
      bool const sees_all = key >= first_key[half] && key + Tile::keys <= end_key[half];
      if (!sees_all) {
        hide_unseen(scores, half, static_cast<int>(key), first_key[half], end_key[half]);
      }
      __syncwarp();
#pragma unroll Tile::flat
      for (int j = 0; j < Tile::keys / 8; ++j) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          C& score = scores[j].value[2 * half + i];
          score *= factor;
          maximum = larger(maximum, score);
        }
      }
      maximum = combine_group(maximum, [](C a, C b) { return larger(a, b); });
      // A row that has seen no key yet subtracts nothing: every term is e^-infinity.
      bool const is_empty = maximum == -std::numeric_limits<C>::infinity();
      C const reference = is_empty ? C{0} : maximum;
      C const correction = exponential(running.maximum[half] - reference);
      C sum = 0;
#pragma unroll Tile::flat
      for (int j = 0; j < Tile::keys / 8; ++j) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          C& score = scores[j].value[2 * half + i];
          score = exponential(score - reference);
          sum += score;
        }
      }
      if (all.dropout.drops) {
        std::int64_t const query = first + warp_row + lane.group + 8 * half;
        drop(scores, half, seen, all.dropout, task, query, key);
      }
      running.maximum[half] = maximum;
      running.sum[half] = running.sum[half] * correction + sum;
#pragma unroll Tile::flat
      for (int e = 0; e < depth / 8; ++e) {
        sums[e].value[2 * half] *= correction;
        sums[e].value[2 * half + 1] *= correction;
      }
    }
    __syncwarp();  // lanes may finish drawing at different times
#pragma unroll Tile::flat
    for (int j = 0; j < Tile::keys; j += 16) {
      if (j >= seen) continue;
      LeftFragment<S> const p = left_of<S>(scores[j / 8], scores[j / 8 + 1]);
      // In columns behind the head's, which are not written, is whatever the tile has there.
#pragma unroll Tile::flat
      for (int e = 0; e < depth; e += 8) {
        add_product(sums[e / 8], p, right_of_columns(v_tile, stride, j, e));
      }
    }
  }

  FlashHead<S> const context{all.context, task.sequence, task.head};
#pragma unroll Tile::flat
  for (int half = 0; half < 2; ++half) {
    std::int64_t const query = first + warp_row + lane.group + 8 * half;
    C const sum = combine_group(running.sum[half], [](C a, C b) { return a + b; });
    if (query >= sizes.s) continue;
    if (lane.pair == 0) {
      all.log_sums[(task.sequence * sizes.heads + task.head) * sizes.s + query] =
          running.maximum[half] + std::log(sum);
    }
    store_half(context.row(query), sizes.value_d, sums, half, sum > C{0} ? C{1} / sum : C{0});
  }
}

}  // namespace

void flash_attention(CudaContext const& context, KernelCall const& call) {
  with_storage_type(call.kind, call.reads[0].type, [&](auto tag) {
    using S = decltype(tag);
    FlashForwardOperands const all = flash_forward_operands<S>(call, context.sequence);
    double const dropout = dropout_attributes(call).rate;
    if (context.cudnn != nullptr && context.cudnn->forward(element_type<S>(), dropout, all)) return;
    std::int64_t const most = std::max(all.sizes.d, all.sizes.value_d);
    with_flash_depth<S>(call.kind, most, [&](auto depth) {
      using Tile = FlashTile<S, depth>;
      static_assert(Tile::rows <= 2 * Tile::keys, "the queries' tile takes the place of the keys'");
      std::int64_t const tiles = (all.sizes.s + Tile::rows - 1) / Tile::rows;
      ForwardCall<S> const arguments{.sizes = all.sizes,
                                     .q = HeadsView<S const>{all.q},
                                     .k = HeadsView<S const>{all.k},
                                     .v = HeadsView<S const>{all.v},
                                     .context = HeadsView<S>{all.context},
                                     .log_sums = elements_of<Compute<S>>(all.log_sums),
                                     .sinks = static_cast<S const*>(all.sinks),
                                     .packed = heads_can_pack<S>(all.q, pack_width<S>) &&
                                               heads_can_pack<S>(all.k, pack_width<S>) &&
                                               heads_can_pack<S>(all.v, pack_width<S>),
                                     .scores = FlashScores<Compute<S>>{all.sizes},
                                     .dropout = FlashDrops<Compute<S>>{context, call, all.sizes},
                                     .tiles = tiles};
      std::int64_t const blocks = tiles * all.sizes.heads * all.sizes.b;
      if (blocks == 0) return;
      launch_with_shared(attend<S, depth>, dim3{static_cast<unsigned>(blocks)}, dim3{Tile::threads},
                         Tile::bytes(2 * Tile::keys), context.stream, arguments);
    });
  });
}

}  // namespace stagecraft::cuda_ops
