#include <algorithm>
#include <limits>

#include "libexec/kernels/attention_scores.hpp"
#include "libexec/kernels/element.hpp"
#include "libexec/kernels/exponential.hpp"
#include "libexec/kernels/kernels.hpp"
#include "libexec/kernels/lane_reduction.hpp"
#include "libexec/kernels/row_dropout.hpp"
#include "libexec/kernels/row_ranges.hpp"

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
    // Exponentials are computed twice, because storing them in 16 bits in between would round
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

/// d = (d - sum(d y)) y scale over the first n columns, in place, 0 in the others.
template <typename S>
void softmax_backward_row(
    S* d, S const* y, std::int64_t n, std::int64_t columns, Compute<S> scale) {
  auto const dot =
      lane_sum<Compute<S>>(n, [&](std::int64_t i) { return widen(d[i]) * widen(y[i]); });
  for (std::int64_t i = 0; i < n; ++i) d[i] = narrow<S>((widen(d[i]) - dot) * widen(y[i]) * scale);
  std::fill_n(d + n, columns - n, S{});
}

/// Calls body(row, n, place) for each row of scores [b, heads, s, s], in parallel ranges; n is the
/// number of its columns up to the diagonal, place its first element.
template <typename Body>
void for_score_rows(KernelContext const& context,
                    Operand const& scores,
                    std::int64_t s,
                    Body const& body) {
  for_row_ranges(*context.pool, scores.shape.elements() / s, s,
                 [&](std::int64_t begin, std::int64_t end) {
                   for (std::int64_t row = begin; row < end; ++row) {
                     body(row, row % s + 1, row * s);
                   }
                 });
}

template <typename S>
void causal_softmax_of(KernelContext const& context, KernelCall const& call) {
  Operand const& scores = call.reads[0];
  std::int64_t const s = expect_scores<S>(call, scores);
  expect_tensor(call, call.writes[0], element_type<S>(), scores.shape);
  S const* const x = elements_of<S>(scores);
  S* const y = elements_of<S>(call.writes[0]);
  auto const scale = score_scale<S>(call);
  for_score_rows(context, scores, s, [&](std::int64_t, std::int64_t n, std::int64_t place) {
    softmax_row(x + place, y + place, n, s, scale);
  });
}

template <typename S>
void causal_softmax_backward_of(KernelContext const& context, KernelCall const& call) {
  Operand const& gradient = call.writes[0];
  std::int64_t const s = expect_scores<S>(call, gradient);
  expect_tensor(call, call.reads[1], element_type<S>(), gradient.shape);
  S* const d = elements_of<S>(gradient);
  S const* const y = elements_of<S>(call.reads[1]);
  auto const scale = score_scale<S>(call);
  for_score_rows(context, gradient, s, [&](std::int64_t, std::int64_t n, std::int64_t place) {
    softmax_backward_row(d + place, y + place, n, s, scale);
  });
}

template <typename S>
RowDropout<S> dropout_of_probabilities(KernelContext const& context,
                                       KernelCall const& call,
                                       std::uint8_t const* given,
                                       std::uint8_t* stored) {
  return {dropout_rows(context.tensor_rank, call, call.reads[0]), call.draw,
          DropoutRate<Compute<S>>{dropout_attributes(call).rate}, given, stored};
}

template <typename S>
void causal_softmax_dropout_of(KernelContext const& context, KernelCall const& call) {
  Operand const& scores = call.reads[0];
  std::int64_t const s = expect_scores<S>(call, scores);
  expect_tensor(call, call.writes[1], element_type<S>(), scores.shape);
  auto const dropped = dropout_of_probabilities<S>(
      context, call, nullptr, dropout_mask(call, call.writes, 2, scores.shape));
  S* const x = elements_of<S>(scores);
  S* const y = elements_of<S>(call.writes[1]);
  auto const scale = score_scale<S>(call);
  for_score_rows(context, scores, s, [&](std::int64_t row, std::int64_t n, std::int64_t place) {
    softmax_row(x + place, x + place, n, s, scale);
    dropped(row, x + place, y + place);
  });
}

template <typename S>
void causal_softmax_dropout_backward_of(KernelContext const& context, KernelCall const& call) {
  Operand const& gradient = call.writes[0];
  std::int64_t const s = expect_scores<S>(call, gradient);
  expect_tensor(call, call.reads[1], element_type<S>(), gradient.shape);
  auto const dropped = dropout_of_probabilities<S>(
      context, call, dropout_mask(call, call.reads, 2, gradient.shape), nullptr);
  S* const d = elements_of<S>(gradient);
  S const* const y = elements_of<S>(call.reads[1]);
  auto const scale = score_scale<S>(call);
  for_score_rows(context, gradient, s, [&](std::int64_t row, std::int64_t n, std::int64_t place) {
    dropped(row, d + place, d + place);
    softmax_backward_row(d + place, y + place, n, s, scale);
  });
}

}  // namespace

void causal_softmax(KernelContext const& context, KernelCall const& call) {
  with_storage_type(call.kind, call.reads[0].type,
                    [&](auto tag) { causal_softmax_of<decltype(tag)>(context, call); });
}

void causal_softmax_backward(KernelContext const& context, KernelCall const& call) {
  with_storage_type(call.kind, call.reads[0].type,
                    [&](auto tag) { causal_softmax_backward_of<decltype(tag)>(context, call); });
}

void causal_softmax_dropout(KernelContext const& context, KernelCall const& call) {
  with_storage_type(call.kind, call.reads[0].type,
                    [&](auto tag) { causal_softmax_dropout_of<decltype(tag)>(context, call); });
}

void causal_softmax_dropout_backward(KernelContext const& context, KernelCall const& call) {
  with_storage_type(call.kind, call.reads[0].type, [&](auto tag) {
    causal_softmax_dropout_backward_of<decltype(tag)>(context, call);
  });
}

}  // namespace stagecraft::STAGECRAFT_ISA
