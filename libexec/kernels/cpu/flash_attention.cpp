#include <algorithm>
#include <cmath>
#include <limits>

#include "libexec/kernels/flash_tile.hpp"
#include "libexec/kernels/formulas.hpp"
#include "libexec/kernels/kernels.hpp"
#include "libexec/kernels/lanes.hpp"

namespace stagecraft::STAGECRAFT_ISA {
namespace {

/// The running softmax of one row: Milakov and Gimelshein 2018, arXiv:1805.02867.
template <typename C>
struct RunningSoftmax {
  C maximum = -std::numeric_limits<C>::infinity();
  C sum = 0;

  /// Turns n scores into exponentials relative to the new maximum; previous sums have to be
  /// multiplied by the returned factor.
  C advance(C* scores, std::int64_t n) {
    C const before = maximum;
    maximum = lane_maximum<C>(n, maximum, [&](std::int64_t j) { return scores[j]; });
    C const correction = exponential(before - maximum);
    for (std::int64_t j = 0; j < n; ++j) scores[j] = exponential(scores[j] - maximum);
    sum = sum * correction + lane_sum<C>(n, [&](std::int64_t j) { return scores[j]; });
    return correction;
  }
};

/// A tile of query rows of one head against all keys that it may see.
/// Source: Dao 2023, arXiv:2307.08691, algorithm 1.
template <typename S>
void attend(KernelContext const& context,
            KernelCall const& call,
            FlashForwardOperands const& all,
            FlashShape const& flash,
            std::int64_t task,
            int worker) {
  using C = Compute<S>;
  std::int64_t const first = task % flash.tiles() * flash.rows;
  std::int64_t const head = task / flash.tiles() % flash.heads;
  std::int64_t const sequence = task / flash.tiles() / flash.heads;
  std::int64_t const kv_head = head / (flash.heads / flash.kv_heads);
  std::int64_t const m = flash.rows_at(first);
  Scratch<C> scratch{context, worker};
  C* const q = scratch.take(tile_elements);
  C* const k_transposed = scratch.take(tile_elements);
  C* const v = scratch.take(tile_elements);
  C* const sums = scratch.take(tile_elements);
  C* const scores = scratch.take(flash.rows * flash.rows);
  FlashDropout const dropout{context, call, flash};
  auto const keep_factor = static_cast<C>(dropout.factor());
  RunningSoftmax<C> softmax[64];
  if (all.sinks != nullptr) {
    C const sink = widen(static_cast<S const*>(all.sinks)[head]);
    std::fill_n(softmax, m, RunningSoftmax<C>{.maximum = sink, .sum = 1});
  }

  load_rows(HeadRows<S const>{HeadsView<S const>{all.q}, sequence, head}, first, m, flash.keys,
            static_cast<C>(flash.scale), q);
  std::int64_t const width = flash.values.width;
  std::fill_n(sums, m * width, C{0});
  for (std::int64_t key = flash.first_key_tile(first); key < flash.end_of_keys(first, m);
       key += flash.rows) {
    std::int64_t const n = flash.keys_at(key);
    load_transposed(HeadRows<S const>{HeadsView<S const>{all.k}, sequence, kv_head}, key, n,
                    flash.keys, flash.rows, k_transposed);
    load_rows(HeadRows<S const>{HeadsView<S const>{all.v}, sequence, kv_head}, key, n, flash.values,
              C{1}, v);
    std::fill_n(scores, m * flash.rows, C{0});
    add_product(LeftTile<C>{q, flash.keys.width, 1}, k_transposed, flash.rows, scores, flash.rows,
                m, flash.rows, flash.d);
    for (std::int64_t i = 0; i < m; ++i) {
      C* const row = scores + i * flash.rows;
      std::int64_t const from = std::max<std::int64_t>(0, flash.first_key(first + i) - key);
      std::int64_t const seen = flash.seen_of(first + i, key, n);
      if (from >= seen) {  // it sees none of the tile's
        std::fill_n(row, flash.rows, C{0});
        continue;
      }
      std::int64_t const count = seen - from;
      flash.cap_scores(row + from, count);
      C const correction = softmax[i].advance(row + from, count);
      std::fill_n(row, from, C{0});
      std::fill(row + seen, row + flash.rows, C{0});
      for (std::int64_t e = 0; e < width; ++e) sums[i * width + e] *= correction;
      if (!dropout.drops()) continue;
      std::uint8_t room[draw_room];
      std::uint8_t const* const kept =
          dropout.kept(sequence, head, first + i, key + from, count, room);
      for (std::int64_t j = 0; j < count; ++j) {
        row[from + j] = kept[j] != 0 ? row[from + j] * keep_factor : C{0};
      }
    }
    add_product(LeftTile<C>{scores, flash.rows, 1}, v, width, sums, width, m, width, n);
  }
  C* const log_sums = elements_of<C>(all.log_sums) + (sequence * flash.heads + head) * flash.s;
  for (std::int64_t i = 0; i < m; ++i) {
    C const inverse = softmax[i].sum > 0 ? C{1} / softmax[i].sum : C{0};
    for (std::int64_t e = 0; e < width; ++e) sums[i * width + e] *= inverse;
    log_sums[first + i] = softmax[i].maximum + std::log(softmax[i].sum);
  }
  store_rows(sums, HeadRows<S>{HeadsView<S>{all.context}, sequence, head}, first, m, flash.values);
}

}  // namespace

void flash_attention(KernelContext const& context, KernelCall const& call) {
  with_storage_type(call, [&](auto tag) {
    using S = decltype(tag);
    FlashForwardOperands const all = flash_forward_operands<S>(call, context.sequence);
    FlashShape const flash = flash_shape<S>(call, all.sizes);
    context.pool->run(flash.b * flash.heads * flash.tiles(), [&](std::int64_t task, int worker) {
      attend<S>(context, call, all, flash, task, worker);
    });
  });
}

}  // namespace stagecraft::STAGECRAFT_ISA
