#include <algorithm>
#include <limits>

#include "libexec/kernels/dropout.hpp"
#include "libexec/kernels/element.hpp"
#include "libexec/kernels/formulas.hpp"
#include "libexec/kernels/kernels.hpp"
#include "libexec/kernels/lanes.hpp"
#include "libexec/kernels/operands/attention_operands.hpp"

namespace stagecraft::STAGECRAFT_ISA {
namespace {

/// y = softmax(scale x) over n columns.
template <typename S>
void softmax_row(S const* x, S* y, std::int64_t n, Compute<S> scale) {
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
}

/// d = (d - sum(d y)) y scale over n columns, in place.
template <typename S>
void softmax_backward_row(S* d, S const* y, std::int64_t n, Compute<S> scale) {
  auto const dot =
      lane_sum<Compute<S>>(n, [&](std::int64_t i) { return widen(d[i]) * widen(y[i]); });
  for (std::int64_t i = 0; i < n; ++i) d[i] = narrow<S>((widen(d[i]) - dot) * widen(y[i]) * scale);
}

/// The columns of a row of scores that count.
struct ScoreRow {
  std::int64_t start;  ///< index of the row's first element
  std::int64_t first;  ///< element of the first column that counts
  std::int64_t n;      ///< columns that count, the last on the diagonal
  std::int64_t end;    ///< index behind the row

  /// Sets the other columns of y to 0.
  template <typename S>
  void clear_rest(S* y) const {
    std::fill(y + start, y + first, S{});
    std::fill(y + first + n, y + end, S{});
  }
};

/// Calls body(index, row) for each row of scores, in parallel ranges.
template <typename S, typename Body>
void for_score_rows(KernelContext const& context, ScoreRows<S> const& all, Body const& body) {
  for_row_ranges(*context.pool, all.rows, all.s, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      std::int64_t const seen = all.end(row);
      std::int64_t const skipped = std::max<std::int64_t>(0, seen - all.window);
      body(row, ScoreRow{.start = row * all.s,
                         .first = row * all.s + skipped,
                         .n = seen - skipped,
                         .end = (row + 1) * all.s});
    }
  });
}

template <typename S>
void causal_softmax_of(KernelContext const& context, KernelCall const& call) {
  auto const of = expect_softmax<S>(call);
  for_score_rows(context, of.all, [&](std::int64_t, ScoreRow const& row) {
    softmax_row(of.scores + row.first, of.probabilities + row.first, row.n, of.all.scale);
    row.clear_rest(of.probabilities);
  });
}

template <typename S>
void causal_softmax_backward_of(KernelContext const& context, KernelCall const& call) {
  auto const of = expect_softmax_backward<S>(call);
  for_score_rows(context, of.all, [&](std::int64_t, ScoreRow const& row) {
    softmax_backward_row(of.scores + row.first, of.probabilities + row.first, row.n, of.all.scale);
    row.clear_rest(of.scores);
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
  auto const of = expect_softmax<S>(call);
  auto const dropped = dropout_of_probabilities<S>(context, call, nullptr, of.mask);
  S* const x = of.probabilities;
  for_score_rows(context, of.all, [&](std::int64_t index, ScoreRow const& row) {
    softmax_row(x + row.first, x + row.first, row.n, of.all.scale);
    row.clear_rest(x);
    dropped(index, x + row.start, of.dropped + row.start);
  });
}

template <typename S>
void causal_softmax_dropout_backward_of(KernelContext const& context, KernelCall const& call) {
  auto const of = expect_softmax_backward<S>(call);
  auto const dropped = dropout_of_probabilities<S>(context, call, of.mask, nullptr);
  S* const d = of.scores;
  for_score_rows(context, of.all, [&](std::int64_t index, ScoreRow const& row) {
    dropped(index, d + row.start, d + row.start);
    softmax_backward_row(d + row.first, of.probabilities + row.first, row.n, of.all.scale);
    row.clear_rest(d);
  });
}

template <typename S>
void softcap_of(KernelContext const& context, KernelCall const& call) {
  auto const of = expect_softcap<S>(call);
  for_row_ranges(*context.pool, of.elements, 1, [&](std::int64_t begin, std::int64_t end) {
    S* const y = of.y;
    for (std::int64_t i = begin; i < end; ++i) {
      y[i] = narrow<S>(capped(widen(of.x[i]) * of.factor, of.cap).value);
    }
  });
}

/// dy (1 - tanh(scale x / cap)^2) scale, in place.
template <typename S>
void softcap_backward_of(KernelContext const& context, KernelCall const& call) {
  auto const of = expect_softcap<S>(call);
  for_row_ranges(*context.pool, of.elements, 1, [&](std::int64_t begin, std::int64_t end) {
    S* const d = of.y;
    for (std::int64_t i = begin; i < end; ++i) {
      d[i] = narrow<S>(widen(d[i]) * capped(widen(of.x[i]) * of.factor, of.cap).slope * of.scale);
    }
  });
}

}  // namespace

void causal_softmax(KernelContext const& context, KernelCall const& call) {
  with_storage_type(call, [&](auto tag) { causal_softmax_of<decltype(tag)>(context, call); });
}

void causal_softmax_backward(KernelContext const& context, KernelCall const& call) {
  with_storage_type(call,
                    [&](auto tag) { causal_softmax_backward_of<decltype(tag)>(context, call); });
}

void causal_softmax_dropout(KernelContext const& context, KernelCall const& call) {
  with_storage_type(call,
                    [&](auto tag) { causal_softmax_dropout_of<decltype(tag)>(context, call); });
}

void causal_softmax_dropout_backward(KernelContext const& context, KernelCall const& call) {
  with_storage_type(
      call, [&](auto tag) { causal_softmax_dropout_backward_of<decltype(tag)>(context, call); });
}

void softcap(KernelContext const& context, KernelCall const& call) {
  with_storage_type(call, [&](auto tag) { softcap_of<decltype(tag)>(context, call); });
}

void softcap_backward(KernelContext const& context, KernelCall const& call) {
  with_storage_type(call, [&](auto tag) { softcap_backward_of<decltype(tag)>(context, call); });
}

}  // namespace stagecraft::STAGECRAFT_ISA
