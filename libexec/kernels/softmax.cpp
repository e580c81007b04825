#include <algorithm>
#include <limits>

#include "libexec/kernels/attention_scores.hpp"
#include "libexec/kernels/element.hpp"
#include "libexec/kernels/exponential.hpp"
#include "libexec/kernels/kernels.hpp"
#include "libexec/kernels/lane_reduction.hpp"

namespace stagecraft::STAGECRAFT_ISA {
namespace {

/// y = softmax(scale x) over the first n columns, 0 in the others.
template <typename S>
void softmax_row(S const* x, S* y, std::int64_t n, std::int64_t columns, Compute<S> scale) {
  using C = Compute<S>;
  C const maximum = lane_maximum<C>(n, -std::numeric_limits<C>::infinity(),
                                    [&](std::int64_t i) { return widen(x[i]); });
  auto const term = [&](std::int64_t i) { return exponential((widen(x[i]) - maximum) * scale); };
  if constexpr (is_narrow<S>) {
    // Exponentials are computed twice: kept in 16 bits between the passes they would be rounded
    // twice.
    C const inverse = C{1} / lane_sum<C>(n, term);
    for (std::int64_t i = 0; i < n; ++i) y[i] = narrow<S>(term(i) * inverse);
  } else {
    for (std::int64_t i = 0; i < n; ++i) y[i] = term(i);
    C const inverse = C{1} / lane_sum<C>(n, [&](std::int64_t i) { return y[i]; });
    for (std::int64_t i = 0; i < n; ++i) y[i] *= inverse;
  }
  std::fill_n(y + n, columns - n, S{});
}

template <typename S>
void causal_softmax_of(KernelContext const& context, KernelCall const& call) {
  Operand const& scores = call.reads[0];
  std::int64_t const s = expect_scores<S>(call, scores);
  expect_tensor(call, call.writes[0], element_type<S>(), scores.shape);
  S const* const x = elements_of<S>(scores);
  S* const y = elements_of<S>(call.writes[0]);
  auto const scale = score_scale<S>(context.model());
  for_row_ranges(*context.pool, scores.shape.elements() / s, s,
                 [&](std::int64_t begin, std::int64_t end) {
                   for (std::int64_t row = begin; row < end; ++row) {
                     softmax_row(x + row * s, y + row * s, row % s + 1, s, scale);
                   }
                 });
}

/// d = (dy - sum(dy y)) y scale, in place on dy.
template <typename S>
void causal_softmax_backward_of(KernelContext const& context, KernelCall const& call) {
  using C = Compute<S>;
  Operand const& gradient = call.writes[0];
  std::int64_t const s = expect_scores<S>(call, gradient);
  expect_tensor(call, call.reads[1], element_type<S>(), gradient.shape);
  C const scale = score_scale<S>(context.model());
  for_row_ranges(
      *context.pool, gradient.shape.elements() / s, s, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t row = begin; row < end; ++row) {
          S* const d = elements_of<S>(gradient) + row * s;
          S const* const y = elements_of<S>(call.reads[1]) + row * s;
          std::int64_t const n = row % s + 1;
          C const dot = lane_sum<C>(n, [&](std::int64_t i) { return widen(d[i]) * widen(y[i]); });
          for (std::int64_t i = 0; i < n; ++i) {
            d[i] = narrow<S>((widen(d[i]) - dot) * widen(y[i]) * scale);
          }
          std::fill_n(d + n, s - n, S{});
        }
      });
}

}  // namespace

void causal_softmax(KernelContext const& context, KernelCall const& call) {
  expect_operands(call, 1, 1, 1, 1);
  with_storage_type(call.kind, call.reads[0].type,
                    [&](auto tag) { causal_softmax_of<decltype(tag)>(context, call); });
}

void causal_softmax_backward(KernelContext const& context, KernelCall const& call) {
  expect_operands(call, 2, 2, 1, 1);
  expect_in_place(call, 0, 0);
  with_storage_type(call.kind, call.reads[0].type,
                    [&](auto tag) { causal_softmax_backward_of<decltype(tag)>(context, call); });
}

}  // namespace stagecraft::STAGECRAFT_ISA
