#pragma once

#include <algorithm>
#include <cstdint>

#include "libexec/kernels/dropout_draw.hpp"
#include "libexec/kernels/dropout_rows.hpp"
#include "libexec/kernels/element.hpp"
#include "libexec/kernels/flash_operands.hpp"
#include "libexec/kernels/heads_view.hpp"
#include "libexec/kernels/scratch.hpp"
#include "libexec/kernels/tile_product.hpp"

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

/// Sizes of a call, and of its tiles.
struct FlashShape : FlashSizes {
  std::int64_t rows;   ///< per tile
  std::int64_t width;  ///< d padded to the lanes

  std::int64_t tiles() const { return (s + rows - 1) / rows; }
  std::int64_t rows_at(std::int64_t first) const { return std::min(rows, s - first); }
};

template <typename S>
FlashShape flash_shape(KernelCall const& call, FlashSizes const& sizes) {
  FlashShape const flash{sizes, flash_tile_rows(sizes.d), padded<Compute<S>>(sizes.d)};
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
               FlashShape const& flash,
               C factor,
               C* tile) {
  for (std::int64_t i = 0; i < count; ++i) {
    S const* const row = from.row(first + i);
    C* const to = tile + i * flash.width;
    for (std::int64_t e = 0; e < flash.d; ++e) to[e] = factor * widen(row[e]);
    std::fill(to + flash.d, to + flash.width, C{0});
  }
}

/// tile[e * rows + i] = element e of row i; columns from `count` on are zero.
template <typename S, typename C>
void load_transposed(HeadRows<S> const& from,
                     std::int64_t first,
                     std::int64_t count,
                     FlashShape const& flash,
                     C* tile) {
  for (std::int64_t i = 0; i < count; ++i) {
    S const* const row = from.row(first + i);
    for (std::int64_t e = 0; e < flash.d; ++e) tile[e * flash.rows + i] = widen(row[e]);
  }
  if (count == flash.rows) return;
  for (std::int64_t e = 0; e < flash.d; ++e) {
    std::fill(tile + e * flash.rows + count, tile + (e + 1) * flash.rows, C{0});
  }
}

template <typename S, typename C>
void store_rows(C const* tile,
                HeadRows<S> const& to,
                std::int64_t first,
                std::int64_t count,
                FlashShape const& flash) {
  for (std::int64_t i = 0; i < count; ++i) {
    S* const row = to.row(first + i);
    C const* const from = tile + i * flash.width;
    for (std::int64_t e = 0; e < flash.d; ++e) row[e] = narrow<S>(from[e]);
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
