#pragma once

#include <algorithm>
#include <cstdint>

#include "libexec/kernels/dropout_draw.hpp"
#include "libexec/kernels/dropout_rows.hpp"
#include "libexec/kernels/element.hpp"

namespace stagecraft {

/// A dropout on a CPU, row by row.
template <typename S>
struct RowDropout {
  DropoutRows rows;
  RandomDraw draw;
  DropoutRate<Compute<S>> rate;
  std::uint8_t const* given;  ///< the mask of all rows; null: it is drawn
  std::uint8_t* stored;       ///< where to store a drawn mask; null: nowhere

  /// y = mask x / (1 - rate) over row `row`, which starts at x and at y (equal for a dropout in
  /// place). y and the stored mask are zero after the row's last column that is drawn.
  void operator()(std::int64_t row, S const* x, S* y) const {
    std::uint8_t drawn[draw_room];
    std::int64_t const alive = rows.alive(row);
    std::uint64_t const first_element = rows.first_element(row);
    std::int64_t const row_begin = row * rows.columns;
    for (std::int64_t first = 0; first < alive; first += draw_chunk) {
      std::int64_t const n = std::min(draw_chunk, alive - first);
      std::uint8_t const* const kept =
          given != nullptr ? given + row_begin + first
                           : draw_kept(draw, rate.threshold,
                                       first_element + static_cast<std::uint64_t>(first), n, drawn);
      for (std::int64_t i = 0; i < n; ++i) {
        Compute<S> const value = widen(x[first + i]) * rate.scale;
        y[first + i] = narrow<S>(kept[i] != 0 ? value : Compute<S>{0});
      }
      if (stored != nullptr) std::copy_n(kept, n, stored + row_begin + first);
    }
    std::fill_n(y + alive, rows.columns - alive, S{});
    if (stored != nullptr) {
      std::fill_n(stored + row_begin + alive, rows.columns - alive, std::uint8_t{0});
    }
  }
};

}  // namespace stagecraft
