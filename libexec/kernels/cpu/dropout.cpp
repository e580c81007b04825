#include "libexec/kernels/dropout.hpp"

#include <algorithm>

#include "libexec/kernels/element.hpp"
#include "libexec/kernels/kernels.hpp"

namespace stagecraft::STAGECRAFT_ISA {
namespace {

/// y = mask x / (1 - rate), with the mask given, or drawn and, if wanted, stored.
template <typename S>
void drop(KernelContext const& context, KernelCall const& call) {
  auto const of = expect_dropout<S>(context.tensor_rank, context.sequence, call);
  DropoutRows const& rows = of.rows;
  RowDropout<S> const dropped{
      rows, call.draw, DropoutRate<Compute<S>>{dropout_attributes(call).rate}, of.given, of.stored};
  for_row_ranges(*context.pool, rows.rows, rows.columns, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      dropped(row, of.x + row * rows.columns, of.y + row * rows.columns);
    }
  });
}

template <typename S>
constexpr S no_dropout_bias[draw_chunk] = {};

/// y = residual + dropout(x + bias).
template <typename S>
void add_dropped(KernelContext const& context, KernelCall const& call) {
  using C = Compute<S>;
  auto const of = expect_bias_dropout_add<S>(context.tensor_rank, context.sequence, call);
  std::int64_t const h = of.rows.columns;
  DropoutRate<C> const rate{of.rate};
  for_row_ranges(*context.pool, of.rows.rows, h, [&](std::int64_t begin, std::int64_t end) {
    std::uint8_t drawn[draw_room];
    for (std::int64_t row = begin; row < end; ++row) {
      for (std::int64_t first = 0; first < h; first += draw_chunk) {
        std::int64_t const n = std::min(draw_chunk, h - first);
        std::int64_t const place = row * h + first;
        S const* const from = of.x + place;
        S const* const residual = of.residual + place;
        S const* const bias = of.bias != nullptr ? of.bias + first : no_dropout_bias<S>;
        S* const to = of.y + place;
        if (of.rate == 0) {
          for (std::int64_t i = 0; i < n; ++i) {
            to[i] = narrow<S>(widen(residual[i]) + (widen(from[i]) + widen(bias[i])));
          }
          continue;
        }
        std::uint8_t const* const kept =
            draw_kept(call.draw, rate.threshold,
                      of.rows.first_element(row) + static_cast<std::uint64_t>(first), n, drawn);
        for (std::int64_t i = 0; i < n; ++i) {
          C const value = (widen(from[i]) + widen(bias[i])) * rate.scale;
          to[i] = narrow<S>(widen(residual[i]) + (kept[i] != 0 ? value : C{0}));
        }
        if (of.stored != nullptr) std::copy_n(kept, n, of.stored + place);
      }
    }
  });
}

}  // namespace

void dropout(KernelContext const& context, KernelCall const& call) {
  with_storage_type(call, [&](auto tag) { drop<decltype(tag)>(context, call); });
}

void dropout_backward(KernelContext const& context, KernelCall const& call) {
  with_storage_type(call, [&](auto tag) { drop<decltype(tag)>(context, call); });
}

void bias_dropout_add(KernelContext const& context, KernelCall const& call) {
  with_storage_type(call, [&](auto tag) { add_dropped<decltype(tag)>(context, call); });
}

}  // namespace stagecraft::STAGECRAFT_ISA
