#pragma once

#include <algorithm>
#include <cstdint>

#include "libexec/kernels/dropout.hpp"
#include "libexec/kernels/element.hpp"
#include "libexec/kernels/formulas.hpp"
#include "libexec/kernels/kernel_context.hpp"
#include "libexec/kernels/lanes.hpp"
#include "libexec/kernels/operands/attention_operands.hpp"
#include "libexec/kernels/operands/head_operands.hpp"

/// What the forward and the backward of flash attention share: sizes, and loading of tiles.
namespace stagecraft {

/// Rows of a tile of queries, or of keys: 64 for heads of up to 256 elements, fewer for larger
/// ones, 0 if not even the smallest tile fits into the workspace.
constexpr std::int64_t flash_tile_rows(std::int64_t head_dim) {
  for (std::int64_t rows = 64; rows >= 16; rows /= 2) {
    if (rows * ((head_dim + 15) / 16 * 16) <= tile_elements) return rows;
  }
  return 0;
}

/// The elements of a head's row, and of its row in a tile, which is padded to the lanes.
struct TileColumns {
  std::int64_t d;
  std::int64_t width;
};

/// Sizes of a call, and of its tiles.
struct FlashShape : FlashSizes {
  std::int64_t rows;   ///< per tile
  TileColumns keys;    ///< of queries and keys
  TileColumns values;  ///< of values and context

  std::int64_t tiles() const { return (s + rows - 1) / rows; }
  std::int64_t key_tiles() const { return (key_rows + rows - 1) / rows; }
  std::int64_t rows_at(std::int64_t first) const { return std::min(rows, s - first); }
  std::int64_t keys_at(std::int64_t first) const { return std::min(rows, key_rows - first); }
  /// The first tile of keys that the queries from `query` on see.
  std::int64_t first_key_tile(std::int64_t query) const { return first_key(query) / rows * rows; }
  /// The first tile of queries that see the keys from `key` on.
  std::int64_t first_query_tile(std::int64_t key) const {
    return attended.first_to_see(key) / rows * rows;
  }
  /// How many of the n keys from `key` on come before those that a query does not see.
  std::int64_t seen_of(std::int64_t query, std::int64_t key, std::int64_t n) const {
    return std::clamp<std::int64_t>(attended.seen_by(query) - key, 0, n);
  }

  /// Applies the cap, if there is one, to n scaled scores.
  template <typename C>
  void cap_scores(C* scores, std::int64_t n) const {
    if (softcap == 0) return;
    auto const cap = static_cast<C>(softcap);
    for (std::int64_t j = 0; j < n; ++j) scores[j] = capped(scores[j] / cap, cap).value;
  }
};

template <typename S>
FlashShape flash_shape(KernelCall const& call, FlashSizes const& sizes) {
  using C = Compute<S>;
  FlashShape const flash{sizes,
                         flash_tile_rows(std::max(sizes.d, sizes.value_d)),
                         {sizes.d, padded<C>(sizes.d)},
                         {sizes.value_d, padded<C>(sizes.value_d)}};
  expect(call, flash.rows > 0, "heads are too large for its tiles");
  return flash;
}

/// Rows [first, first + count) of one head.
template <typename S>
struct HeadRows {
  HeadsView<S> view;
  std::int64_t sequence;
  std::int64_t head;

  S* row(std::int64_t position) const { return view.head(position, sequence, head); }
};

/// tile[i * width + e] = factor * (element e of row i); columns from d on are zero.
template <typename S, typename C>
void load_rows(HeadRows<S> const& from,
               std::int64_t first,
               std::int64_t count,
               TileColumns const& columns,
               C factor,
               C* tile) {
  for (std::int64_t i = 0; i < count; ++i) {
    S const* const row = from.row(first + i);
    C* const to = tile + i * columns.width;
    for (std::int64_t e = 0; e < columns.d; ++e) to[e] = factor * widen(row[e]);
    std::fill(to + columns.d, to + columns.width, C{0});
  }
}

/// tile[e * rows + i] = element e of row i; columns from `count` on are zero.
template <typename S, typename C>
void load_transposed(HeadRows<S> const& from,
                     std::int64_t first,
                     std::int64_t count,
                     TileColumns const& columns,
                     std::int64_t rows,
                     C* tile) {
  for (std::int64_t i = 0; i < count; ++i) {
    S const* const row = from.row(first + i);
    for (std::int64_t e = 0; e < columns.d; ++e) tile[e * rows + i] = widen(row[e]);
  }
  if (count == rows) return;
  for (std::int64_t e = 0; e < columns.d; ++e) {
    std::fill(tile + e * rows + count, tile + (e + 1) * rows, C{0});
  }
}

template <typename S, typename C>
void store_rows(C const* tile,
                HeadRows<S> const& to,
                std::int64_t first,
                std::int64_t count,
                TileColumns const& columns) {
  for (std::int64_t i = 0; i < count; ++i) {
    S* const row = to.row(first + i);
    C const* const from = tile + i * columns.width;
    for (std::int64_t e = 0; e < columns.d; ++e) row[e] = narrow<S>(from[e]);
  }
}

/// The dropout of one head's probabilities, drawn from a counter.
class FlashDropout {
 public:
  FlashDropout(KernelContext const& context, KernelCall const& call, FlashSizes const& sizes)
      : place_{probability_place(
            dropout_attributes(call), context.tensor_rank, sizes.heads, sizes.s)},
        draw_{call.draw},
        rate_{dropout_attributes(call).rate} {}

  bool drops() const { return rate_ > 0; }
  double factor() const { return 1 / (1 - rate_); }
  /// Whether columns [first, first + n) of a row are kept; see draw_kept.
  std::uint8_t const* kept(std::int64_t sequence,
                           std::int64_t head,
                           std::int64_t row,
                           std::int64_t first,
                           std::int64_t n,
                           std::uint8_t* room) const {
    std::uint64_t const element =
        place_.first_of(sequence, head, row) + static_cast<std::uint64_t>(first);
    return draw_kept(draw_, keep_threshold(rate_), element, n, room);
  }

 private:
  ProbabilityPlace place_;
  RandomDraw draw_;
  double rate_;
};

}  // namespace stagecraft
