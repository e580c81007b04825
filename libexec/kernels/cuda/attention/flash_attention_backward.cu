#include "libexec/kernels/cuda/attention/flash_tile.cuh"
#include "libexec/kernels/cuda/cuda_op_kernels.hpp"
#include "libexec/kernels/formulas.hpp"

/// Two sweeps as on the CPU: one for dk and dv, whose blocks own keys and go over queries, and one
/// for dq, whose blocks own queries and go over keys. Each computes the probabilities for itself;
/// no sum is shared between blocks, so that the bits are the same every time.
namespace stagecraft::cuda_ops {
namespace {

template <typename S>
struct BackwardCall {
  FlashSizes sizes;
  HeadsView<S const> d_context, q, k, v, context;
  HeadsView<S> dq, dk, dv;
  Compute<S> const* log_sums;
  bool packed;
  FlashScores<Compute<S>> scores;
  FlashDrops<Compute<S>> dropout;

  std::int64_t tiles;  ///< of a head's own rows
};

/// The values per query from which probabilities are computed, besides scores.
template <typename C>
struct QueryStatistics {
  C* log_sum;
  C* row_dot;  ///< sum(d context * context)
  int* seen;   ///< one past the last key that the query sees
};

/// Computes the statistics of queries [first, first + count), one warp per query in turn.
template <typename S>
__device__ void load_statistics(BackwardCall<S> const& all,
                                std::int64_t sequence,
                                std::int64_t head,
                                std::int64_t first,
                                int count,
                                QueryStatistics<Compute<S>> const& to) {
  using C = Compute<S>;
  FlashSizes const& sizes = all.sizes;
  int const lane = static_cast<int>(threadIdx.x) % warp_threads;
  FlashHead<S const> const gradients{all.d_context, sequence, head};
  FlashHead<S const> const outputs{all.context, sequence, head};
  C const* const log_sums = all.log_sums + (sequence * sizes.heads + head) * sizes.s;
  for (int i = static_cast<int>(threadIdx.x) / warp_threads; i < count;
       i += static_cast<int>(blockDim.x) / warp_threads) {
    std::int64_t const query = first + i;
    C dot = 0;
    if (query < sizes.s) {
      S const* const gradient = gradients.row(query);
      S const* const output = outputs.row(query);
      for (std::int64_t e = lane; e < sizes.value_d; e += warp_threads) {
        dot += widen(gradient[e]) * widen(output[e]);
      }
    }
#pragma unroll
    for (int offset = warp_threads / 2; offset > 0; offset /= 2) {
      dot += __shfl_xor_sync(0xFFFFFFFFU, dot, offset);
    }
    if (lane != 0) continue;
    to.row_dot[i] = dot;
    to.seen[i] = static_cast<int>(sizes.attended.seen_by(query));
    to.log_sum[i] = query < sizes.s ? log_sums[query] : C{0};
  }
}

/// Turns scores, capped if they have a cap, and gradients of probabilities into probabilities after
/// dropout and gradients of products. With P the softmax and D its dropout:
///   d scores = P (dropout(d D) - sum(d context * context)),
/// times the slope of the cap and the scale.
/// \param is_seen  whether the query sees the key
template <typename C>
__device__ void differentiate(C& score,
                              C& gradient,
                              FlashScores<C> const& rule,
                              C log_sum,
                              C row_dot,
                              C keep_factor,
                              bool is_seen) {
  C const x = score * rule.factor();
  C const p = is_seen ? exponential(x - log_sum) : C{0};
  C const slope = rule.scale * tanh_slope(x * rule.inverse_cap);
  gradient = is_seen ? p * (gradient * keep_factor - row_dot) * slope : C{0};
  score = p * keep_factor;
}

/// of_keys: dk and dv of a tile of keys of one key and value head, over all queries that see them;
/// otherwise dq of a tile of queries of one head, over all keys that they see.
template <typename S, int depth, bool of_keys>
__global__ void __launch_bounds__(FlashTile<S, depth>::threads) sweep(BackwardCall<S> all) {
  using C = Compute<S>;
  using Tile = FlashTile<S, depth>;
  constexpr int stride = Tile::stride;
  constexpr int queries = of_keys ? Tile::others : Tile::rows;
  // Own rows are k and v, or q and d context; others the other way round.
  S* const own_left = dynamic_shared<S>();
  S* const own_right = own_left + Tile::rows * stride;
  S* const other_left = own_right + Tile::rows * stride;
  S* const other_right = other_left + Tile::others * stride;
  __shared__ C log_sum[queries];
  __shared__ C row_dot[queries];
  __shared__ int seen[queries];
  QueryStatistics<C> const statistics{log_sum, row_dot, seen};

  FlashSizes const& sizes = all.sizes;
  std::int64_t const group = sizes.heads / sizes.kv_heads;
  FlashTask const task{all.tiles, of_keys ? sizes.kv_heads : sizes.heads};
  // The tiles with the most work come first.
  std::int64_t const own = (of_keys ? task.tile : all.tiles - 1 - task.tile) * Tile::rows;
  std::int64_t const kv_head = of_keys ? task.head : task.head / group;
  std::int64_t const first_head = of_keys ? task.head * group : task.head;
  std::int64_t const last_head = of_keys ? first_head + group : first_head + 1;
  std::int64_t const own_end = of_keys ? sizes.key_rows : sizes.s;
  std::int64_t const other_end = of_keys ? sizes.s : sizes.key_rows;
  // The other rows that meet rows [first, first + count) of its own, as queries and keys.
  auto const first_met = [&](std::int64_t first) {
    return of_keys ? sizes.attended.first_to_see(first) : sizes.first_key(first);
  };
  auto const end_met = [&](std::int64_t first, int count) {
    return of_keys ? sizes.last_query(first + count - 1) : sizes.end_of_keys(first, count);
  };
  std::int64_t const begin = first_met(own) / Tile::others * Tile::others;
  std::int64_t const end = end_met(own, Tile::rows);
  WarpLane const lane;
  int const warp_row = static_cast<int>(threadIdx.x) / warp_threads * 16;
  std::int64_t const warp_begin = first_met(own + warp_row);
  std::int64_t const warp_end = end_met(own + warp_row, 16);
  auto const reach = static_cast<int>(sizes.reach());
  auto const load_own = [&](HeadsView<S const> const& view, std::int64_t d, S* tile) {
    load_tile(FlashHead<S const>{view, task.sequence, task.head}, own, Tile::rows, own_end, d,
              all.packed, stride, tile);
  };
  auto const load_other = [&](HeadsView<S const> const& view, std::int64_t head, std::int64_t first,
                              std::int64_t d, S* tile) {
    load_tile(FlashHead<S const>{view, task.sequence, head}, first, Tile::others, other_end, d,
              all.packed, stride, tile);
  };

  load_own(of_keys ? all.k : all.q, sizes.d, own_left);
  load_own(of_keys ? all.v : all.d_context, sizes.value_d, own_right);
  if (!of_keys) load_statistics(all, task.sequence, task.head, own, Tile::rows, statistics);

  SumFragment<C> d_left[depth / 8] = {};                 // dk or dq
  SumFragment<C> d_right[of_keys ? depth / 8 : 1] = {};  // dv
  for (std::int64_t head = first_head; head < last_head; ++head) {
    for (std::int64_t other = begin; other < end; other += Tile::others) {
      __syncthreads();
      load_other(of_keys ? all.q : all.k, of_keys ? head : kv_head, other, sizes.d, other_left);
      load_other(of_keys ? all.d_context : all.v, of_keys ? head : kv_head, other, sizes.value_d,
                 other_right);
      if (of_keys) load_statistics(all, task.sequence, head, other, Tile::others, statistics);
      __syncthreads();
      // Whether any query of one of these two sets of rows may see any key of the other.
      if (other + Tile::others <= warp_begin || other >= warp_end) continue;

      SumFragment<C> scores[Tile::others / 8] = {};
      SumFragment<C> gradients[Tile::others / 8] = {};
#pragma unroll Tile::flat
      for (int e = 0; e < depth; e += 16) {
        if (e < sizes.d) {
          LeftFragment<S> const left = left_of(own_left, stride, warp_row, e);
#pragma unroll Tile::flat
          for (int j = 0; j < Tile::others; j += 8) {
            add_product(scores[j / 8], left, right_of_rows(other_left, stride, j, e));
          }
        }
        if (e < sizes.value_d) {
          LeftFragment<S> const right = left_of(own_right, stride, warp_row, e);
#pragma unroll Tile::flat
          for (int j = 0; j < Tile::others; j += 8) {
            add_product(gradients[j / 8], right, right_of_rows(other_right, stride, j, e));
          }
        }
      }
      all.scores.template apply_cap<Tile::flat>(scores);
#pragma unroll Tile::flat
      for (int j = 0; j < Tile::others; j += 8) {
#pragma unroll Tile::flat
        for (int half = 0; half < 2; ++half) {
          int const own_row = warp_row + lane.group + 8 * half;
          int const other_row = j + lane.pair;
          std::uint32_t kept = 3;
          if (all.dropout.drops && !of_keys) {
            kept =
                all.dropout.template kept<2>(task.sequence, head, own + own_row, other + other_row);
          }
#pragma unroll Tile::flat
          for (int i = 0; i < 2; ++i) {
            std::int64_t const query = of_keys ? other + other_row + i : own + own_row;
            std::int64_t const key = of_keys ? own + own_row : other + other_row + i;
            int const place = of_keys ? other_row + i : own_row;
            if (all.dropout.drops && of_keys) {
              kept = all.dropout.template kept<1>(task.sequence, head, query, key) << i;
            }
            C const keep_factor = (kept >> i & 1U) != 0 ? all.dropout.rate.scale : C{0};
            auto const number = static_cast<int>(key);
            differentiate(scores[j / 8].value[2 * half + i], gradients[j / 8].value[2 * half + i],
                          all.scores, log_sum[place], row_dot[place], keep_factor,
                          number < seen[place] && number >= seen[place] - reach);
          }
        }
      }
      __syncwarp();  // lanes may finish drawing at different times
#pragma unroll Tile::flat
      for (int j = 0; j < Tile::others; j += 16) {
        LeftFragment<S> const d_scores = left_of<S>(gradients[j / 8], gradients[j / 8 + 1]);
        LeftFragment<S> const p = left_of<S>(scores[j / 8], scores[j / 8 + 1]);
#pragma unroll Tile::flat
        for (int e = 0; e < depth; e += 8) {
          if (e < sizes.d) {
            add_product(d_left[e / 8], d_scores, right_of_columns(other_left, stride, j, e));
          }
          if constexpr (of_keys) {
            if (e >= sizes.value_d) continue;
            add_product(d_right[e / 8], p, right_of_columns(other_right, stride, j, e));
          }
        }
      }
    }
  }

  FlashHead<S> const left{of_keys ? all.dk : all.dq, task.sequence, task.head};
  FlashHead<S> const right{all.dv, task.sequence, kv_head};
#pragma unroll Tile::flat
  for (int half = 0; half < 2; ++half) {
    std::int64_t const row = own + warp_row + lane.group + 8 * half;
    if (row >= own_end) continue;
    store_half(left.row(row), sizes.d, d_left, half);
    if constexpr (of_keys) store_half(right.row(row), sizes.value_d, d_right, half);
  }
}

}  // namespace

void flash_attention_backward(CudaContext const& context, KernelCall const& call) {
  with_storage_type(call.kind, call.reads[0].type, [&](auto tag) {
    using S = decltype(tag);
    FlashBackwardOperands const all = flash_backward_operands<S>(call, context.sequence);
    double const dropout = dropout_attributes(call).rate;
    if (context.cudnn != nullptr && context.cudnn->backward(element_type<S>(), dropout, all)) {
      return;
    }
    std::int64_t const most = std::max(all.sizes.d, all.sizes.value_d);
    with_flash_depth<S>(call.kind, most, [&](auto depth) {
      using Tile = FlashTile<S, depth>;
      auto const can_pack_all = [](auto const&... operands) {
        return (... && heads_can_pack<S>(operands, pack_width<S>));
      };
      BackwardCall<S> arguments{.sizes = all.sizes,
                                .d_context = HeadsView<S const>{all.d_context},
                                .q = HeadsView<S const>{all.q},
                                .k = HeadsView<S const>{all.k},
                                .v = HeadsView<S const>{all.v},
                                .context = HeadsView<S const>{all.context},
                                .dq = HeadsView<S>{all.dq},
                                .dk = HeadsView<S>{all.dk},
                                .dv = HeadsView<S>{all.dv},
                                .log_sums = elements_of<Compute<S> const>(all.log_sums),
                                .packed = can_pack_all(all.d_context, all.q, all.k, all.v),
                                .scores = FlashScores<Compute<S>>{all.sizes},
                                .dropout = FlashDrops<Compute<S>>{context, call, all.sizes},
                                .tiles = 0};
      auto const run = [&](auto* kernel, std::int64_t rows, std::int64_t heads) {
        arguments.tiles = (rows + Tile::rows - 1) / Tile::rows;
        std::int64_t const blocks = arguments.tiles * heads * all.sizes.b;
        if (blocks == 0) return;
        launch_with_shared(kernel, dim3{static_cast<unsigned>(blocks)}, dim3{Tile::threads},
                           Tile::bytes(2 * (Tile::rows + Tile::others)), context.stream, arguments);
      };
      run(sweep<S, depth, true>, all.sizes.key_rows, all.sizes.kv_heads);
      run(sweep<S, depth, false>, all.sizes.s, all.sizes.heads);
    });
  });
}

}  // namespace stagecraft::cuda_ops
