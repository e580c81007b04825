#include <algorithm>

#include "libexec/kernels/flash_tile.hpp"
#include "libexec/kernels/formulas.hpp"
#include "libexec/kernels/kernels.hpp"
#include "libexec/kernels/lanes.hpp"

/// There are two sweeps, one for dk and dv and one for dq, which compute scores separately: a sum
/// over tiles is then computed by one thread, in a fixed order, in full precision, and without a
/// buffer that grows with s.
namespace stagecraft::STAGECRAFT_ISA {
namespace {

/// The operands of a call, and how the work is divided.
struct Operands : FlashBackwardOperands {
  FlashShape flash;
  FlashDropout dropout;
};

template <typename S>
HeadRows<S const> rows_of(Operand const& operand, std::int64_t sequence, std::int64_t head) {
  return {HeadsView<S const>{operand}, sequence, head};
}

/// The tiles from which probabilities and their gradients are computed, and their results.
template <typename C>
struct Tiles {
  C* q;             ///< [rows, d]
  C* d_context;     ///< [rows, value_d]
  C* k_transposed;  ///< [d, rows]
  C* v_transposed;  ///< [value_d, rows]
  C* dropped;       ///< dropout(softmax) [query rows, key rows]
  C* d_scores;      ///< gradient of q k^T, likewise
  C row_dot[64];    ///< sum(d context * context) of each query row

  Tiles(Scratch<C>& scratch, FlashShape const& flash)
      : q{scratch.take(tile_elements)},
        d_context{scratch.take(tile_elements)},
        k_transposed{scratch.take(tile_elements)},
        v_transposed{scratch.take(tile_elements)},
        dropped{scratch.take(flash.rows * flash.rows)},
        d_scores{scratch.take(flash.rows * flash.rows)} {}
};

template <typename S, typename C>
void load_queries(Operands const& all,
                  std::int64_t sequence,
                  std::int64_t head,
                  std::int64_t first,
                  Tiles<C>& tiles) {
  FlashShape const& flash = all.flash;
  std::int64_t const m = flash.rows_at(first);
  load_rows(rows_of<S>(all.q, sequence, head), first, m, flash.keys, C{1}, tiles.q);
  load_rows(rows_of<S>(all.d_context, sequence, head), first, m, flash.values, C{1},
            tiles.d_context);
  for (std::int64_t i = 0; i < m; ++i) {
    S const* const output = rows_of<S>(all.context, sequence, head).row(first + i);
    C const* const gradient = tiles.d_context + i * flash.values.width;
    tiles.row_dot[i] =
        lane_sum<C>(flash.value_d, [&](std::int64_t e) { return gradient[e] * widen(output[e]); });
  }
}

template <typename S, typename C>
void load_keys(Operands const& all,
               std::int64_t sequence,
               std::int64_t kv_head,
               std::int64_t first,
               Tiles<C>& tiles) {
  FlashShape const& flash = all.flash;
  std::int64_t const n = flash.keys_at(first);
  load_transposed(rows_of<S>(all.k, sequence, kv_head), first, n, flash.keys, flash.rows,
                  tiles.k_transposed);
  load_transposed(rows_of<S>(all.v, sequence, kv_head), first, n, flash.values, flash.rows,
                  tiles.v_transposed);
}

/// Turns n products of queries and keys into probabilities, and multiplies the gradients' factors
/// `slopes` by what the scale and the cap add to the chain rule.
template <typename C>
void probabilities(FlashShape const& flash, C log_sum, std::int64_t n, C* scores, C* slopes) {
  auto const scale = static_cast<C>(flash.scale);
  if (flash.softcap == 0) {
    for (std::int64_t j = 0; j < n; ++j) scores[j] = exponential(scores[j] * scale - log_sum);
    return;
  }
  auto const cap = static_cast<C>(flash.softcap);
  for (std::int64_t j = 0; j < n; ++j) {
    Capped<C> const score = capped(scores[j] * scale / cap, cap);
    scores[j] = exponential(score.value - log_sum);
    slopes[j] = score.slope;
  }
}

/// Computes `dropped` and `d_scores` for query rows from `query` on against key rows from `key` on.
/// With P the softmax, D its dropout and dD = d context v^T:
///   d scores = P (dropout(dD) - sum(d context * context)) / sqrt(d).
template <typename S, typename C>
void differentiate(Operands const& all,
                   std::int64_t sequence,
                   std::int64_t head,
                   std::int64_t query,
                   std::int64_t key,
                   Tiles<C>& tiles) {
  FlashShape const& flash = all.flash;
  std::int64_t const m = flash.rows_at(query);
  std::int64_t const n = flash.keys_at(key);
  auto const scale = static_cast<C>(flash.scale);
  auto const keep_factor = static_cast<C>(all.dropout.factor());
  C const* const log_sums =
      elements_of<C const>(all.log_sums) + (sequence * flash.heads + head) * flash.s;
  std::fill_n(tiles.dropped, m * flash.rows, C{0});
  std::fill_n(tiles.d_scores, m * flash.rows, C{0});
  add_product(LeftTile<C>{tiles.q, flash.keys.width, 1}, tiles.k_transposed, flash.rows,
              tiles.dropped, flash.rows, m, flash.rows, flash.d);
  add_product(LeftTile<C>{tiles.d_context, flash.values.width, 1}, tiles.v_transposed, flash.rows,
              tiles.d_scores, flash.rows, m, flash.rows, flash.value_d);
  for (std::int64_t i = 0; i < m; ++i) {
    C* const p = tiles.dropped + i * flash.rows;
    C* const d = tiles.d_scores + i * flash.rows;
    C const log_sum = log_sums[query + i];
    C const dot = tiles.row_dot[i];
    std::int64_t const seen = flash.seen_of(query + i, key, n);
    std::int64_t const from =
        std::min(seen, std::max<std::int64_t>(0, flash.first_key(query + i) - key));
    C slopes[64];
    probabilities(flash, log_sum, seen - from, p + from, slopes);
    if (all.dropout.drops()) {
      std::uint8_t room[draw_room];
      std::uint8_t const* const kept =
          all.dropout.kept(sequence, head, query + i, key + from, seen - from, room);
      for (std::int64_t j = from; j < seen; ++j) {
        C const factor = kept[j - from] != 0 ? keep_factor : C{0};
        d[j] = p[j] * (d[j] * factor - dot) * scale;
        p[j] *= factor;
      }
    } else {
      for (std::int64_t j = from; j < seen; ++j) d[j] = p[j] * (d[j] - dot) * scale;
    }
    for (std::int64_t j = from; flash.softcap > 0 && j < seen; ++j) d[j] *= slopes[j - from];
    std::fill(p, p + from, C{0});
    std::fill(d, d + from, C{0});
    std::fill(p + seen, p + flash.rows, C{0});
    std::fill(d + seen, d + flash.rows, C{0});
  }
}

/// dk and dv of a tile of keys of one key and value head.
template <typename S>
void differentiate_keys(KernelContext const& context,
                        Operands const& all,
                        std::int64_t task,
                        int worker) {
  using C = Compute<S>;
  FlashShape const& flash = all.flash;
  std::int64_t const key = task % flash.key_tiles() * flash.rows;
  std::int64_t const kv_head = task / flash.key_tiles() % flash.kv_heads;
  std::int64_t const sequence = task / flash.key_tiles() / flash.kv_heads;
  std::int64_t const n = flash.keys_at(key);
  Scratch<C> scratch{context, worker};
  C* const dk = scratch.take(tile_elements);
  C* const dv = scratch.take(tile_elements);
  Tiles<C> tiles{scratch, flash};
  std::int64_t const width = flash.keys.width;
  std::int64_t const value_width = flash.values.width;
  std::fill_n(dk, n * width, C{0});
  std::fill_n(dv, n * value_width, C{0});
  load_keys<S>(all, sequence, kv_head, key, tiles);
  std::int64_t const group = flash.heads / flash.kv_heads;
  for (std::int64_t head = kv_head * group; head < (kv_head + 1) * group; ++head) {
    for (std::int64_t query = flash.first_query_tile(key); query < flash.last_query(key + n - 1);
         query += flash.rows) {
      std::int64_t const m = flash.rows_at(query);
      load_queries<S>(all, sequence, head, query, tiles);
      differentiate<S>(all, sequence, head, query, key, tiles);
      add_product(LeftTile<C>{tiles.dropped, 1, flash.rows}, tiles.d_context, value_width, dv,
                  value_width, n, value_width, m);
      add_product(LeftTile<C>{tiles.d_scores, 1, flash.rows}, tiles.q, width, dk, width, n, width,
                  m);
    }
  }
  store_rows(dk, HeadRows<S>{HeadsView<S>{all.dk}, sequence, kv_head}, key, n, flash.keys);
  store_rows(dv, HeadRows<S>{HeadsView<S>{all.dv}, sequence, kv_head}, key, n, flash.values);
}

/// dq of a tile of query rows of one head.
template <typename S>
void differentiate_queries(KernelContext const& context,
                           Operands const& all,
                           std::int64_t task,
                           int worker) {
  using C = Compute<S>;
  FlashShape const& flash = all.flash;
  std::int64_t const query = task % flash.tiles() * flash.rows;
  std::int64_t const head = task / flash.tiles() % flash.heads;
  std::int64_t const sequence = task / flash.tiles() / flash.heads;
  std::int64_t const kv_head = head / (flash.heads / flash.kv_heads);
  std::int64_t const m = flash.rows_at(query);
  Scratch<C> scratch{context, worker};
  C* const dq = scratch.take(tile_elements);
  C* const k = scratch.take(tile_elements);
  Tiles<C> tiles{scratch, flash};
  std::int64_t const width = flash.keys.width;
  std::fill_n(dq, m * width, C{0});
  load_queries<S>(all, sequence, head, query, tiles);
  for (std::int64_t key = flash.first_key_tile(query); key < flash.end_of_keys(query, m);
       key += flash.rows) {
    std::int64_t const n = flash.keys_at(key);
    load_keys<S>(all, sequence, kv_head, key, tiles);
    load_rows(rows_of<S>(all.k, sequence, kv_head), key, n, flash.keys, C{1}, k);
    differentiate<S>(all, sequence, head, query, key, tiles);
    add_product(LeftTile<C>{tiles.d_scores, flash.rows, 1}, k, width, dq, width, m, width, n);
  }
  store_rows(dq, HeadRows<S>{HeadsView<S>{all.dq}, sequence, head}, query, m, flash.keys);
}

template <typename S>
void flash_backward_of(KernelContext const& context, KernelCall const& call) {
  FlashBackwardOperands const operands = flash_backward_operands<S>(call, context.sequence);
  FlashShape const flash = flash_shape<S>(call, operands.sizes);
  Operands const all{operands, flash, FlashDropout{context, call, flash}};
  context.pool->run(
      flash.b * flash.kv_heads * flash.key_tiles(),
      [&](std::int64_t task, int worker) { differentiate_keys<S>(context, all, task, worker); });
  context.pool->run(flash.b * flash.heads * flash.tiles(), [&](std::int64_t task, int worker) {
    differentiate_queries<S>(context, all, task, worker);
  });
}

}  // namespace

void flash_attention_backward(KernelContext const& context, KernelCall const& call) {
  with_storage_type(call, [&](auto tag) { flash_backward_of<decltype(tag)>(context, call); });
}

}  // namespace stagecraft::STAGECRAFT_ISA
