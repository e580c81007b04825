#include "libexec/kernels/dropout.hpp"

#include <algorithm>

#include "libexec/kernels/element.hpp"
#include "libexec/kernels/kernels.hpp"

namespace stagecraft::STAGECRAFT_ISA {
namespace {

/// y = mask x / (1 - rate), with the mask given, or drawn and, if wanted, stored.
template <typename S>
void drop(KernelContext const& context,
          KernelCall const& call,
          std::uint8_t const* given,
          std::uint8_t* stored) {
  Operand const& x = call.reads[0];
  DropoutRows const rows = dropout_rows(context.tensor_rank, call, x, context.sequence);
  expect_tensor(call, x, element_type<S>(), x.shape);
  expect_tensor(call, call.writes[0], element_type<S>(), x.shape);
  RowDropout<S> const dropped{
      rows, call.draw, DropoutRate<Compute<S>>{dropout_attributes(call).rate}, given, stored};
  S const* const input = elements_of<S>(x);
  S* const output = elements_of<S>(call.writes[0]);
  for_row_ranges(*context.pool, rows.rows, rows.columns, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      dropped(row, input + row * rows.columns, output + row * rows.columns);
    }
  });
}

template <typename S>
constexpr S no_dropout_bias[draw_chunk] = {};

/// y = residual + dropout(x + bias).
template <typename S>
void add_dropped(KernelContext const& context, KernelCall const& call) {
  using C = Compute<S>;
  Operand const& x = call.reads[0];
  DropoutRows const rows = dropout_rows(context.tensor_rank, call, x, context.sequence);
  std::int64_t const h = rows.columns;
  expect_tensor(call, x, element_type<S>(), x.shape);
  expect_tensor(call, call.reads[1], element_type<S>(), x.shape);
  expect_tensor(call, call.writes[0], element_type<S>(), x.shape);
  bool const biased = call.reads.size() == 3;
  if (biased) expect_tensor(call, call.reads[2], element_type<S>(), {h});
  bool const drops = dropout_attributes(call).rate > 0;
  std::uint8_t* const stored = dropout_mask(call, call.writes, 1, x.shape);
  DropoutRate<C> const rate{dropout_attributes(call).rate};
  for_row_ranges(*context.pool, rows.rows, h, [&](std::int64_t begin, std::int64_t end) {
    std::uint8_t drawn[draw_room];
    for (std::int64_t row = begin; row < end; ++row) {
      for (std::int64_t first = 0; first < h; first += draw_chunk) {
        std::int64_t const n = std::min(draw_chunk, h - first);
        std::int64_t const place = row * h + first;
        S const* const from = elements_of<S>(x) + place;
        S const* const residual = elements_of<S>(call.reads[1]) + place;
        S const* const bias = biased ? elements_of<S>(call.reads[2]) + first : no_dropout_bias<S>;
        S* const to = elements_of<S>(call.writes[0]) + place;
        if (!drops) {
          for (std::int64_t i = 0; i < n; ++i) {
            to[i] = narrow<S>(widen(residual[i]) + (widen(from[i]) + widen(bias[i])));
          }
          continue;
        }
        std::uint8_t const* const kept =
            draw_kept(call.draw, rate.threshold,
                      rows.first_element(row) + static_cast<std::uint64_t>(first), n, drawn);
        for (std::int64_t i = 0; i < n; ++i) {
          C const value = (widen(from[i]) + widen(bias[i])) * rate.scale;
          to[i] = narrow<S>(widen(residual[i]) + (kept[i] != 0 ? value : C{0}));
        }
        if (stored != nullptr) std::copy_n(kept, n, stored + place);
      }
    }
  });
}

}  // namespace

void dropout(KernelContext const& context, KernelCall const& call) {
  std::uint8_t* const stored = dropout_mask(call, call.writes, 1, call.reads[0].shape);
  with_storage_type(call, [&](auto tag) { drop<decltype(tag)>(context, call, nullptr, stored); });
}

void dropout_backward(KernelContext const& context, KernelCall const& call) {
  std::uint8_t const* const given = dropout_mask(call, call.reads, 1, call.reads[0].shape);
  with_storage_type(call, [&](auto tag) { drop<decltype(tag)>(context, call, given, nullptr); });
}

void bias_dropout_add(KernelContext const& context, KernelCall const& call) {
  expect(call, call.reads[0].shape.rank() == 3, "x is not [s, b, h]");
  with_storage_type(call, [&](auto tag) { add_dropped<decltype(tag)>(context, call); });
}

}  // namespace stagecraft::STAGECRAFT_ISA
