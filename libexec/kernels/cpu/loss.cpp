#include <algorithm>
#include <cmath>
#include <limits>

#include "libexec/kernels/element.hpp"
#include "libexec/kernels/formulas.hpp"
#include "libexec/kernels/kernels.hpp"
#include "libexec/kernels/lanes.hpp"
#include "libexec/kernels/operands/vocabulary_operands.hpp"

namespace stagecraft::STAGECRAFT_ISA {
namespace {

template <typename C>
void exponentials_of(KernelContext const& context, KernelCall const& call) {
  Operand const& logits = call.writes[0];
  LogitRows const all = expect_logits(context.tensor_rank, call, logits);
  expect_tokens(call, call.reads[1], logits.type, logits);
  expect_tokens(call, call.reads[2], ElementType::i64, logits);
  expect_tokens(call, call.writes[1], logits.type, logits);
  expect_tokens(call, call.writes[2], logits.type, logits);
  auto const* const labels = elements_of<std::int64_t>(call.reads[2]);
  for_row_ranges(*context.pool, all.rows, all.words, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      C* const x = elements_of<C>(logits) + row * all.words;
      C const maximum = elements_of<C>(call.reads[1])[row];
      std::int64_t const column = all.column_of(labels[row]);
      elements_of<C>(call.writes[2])[row] = column < 0 ? C{0} : x[column] - maximum;
      for (std::int64_t i = 0; i < all.valid; ++i) x[i] = exponential(x[i] - maximum);
      std::fill(x + all.valid, x + all.words, C{0});
      elements_of<C>(call.writes[1])[row] =
          lane_sum<C>(all.valid, [&](std::int64_t i) { return x[i]; });
    }
  });
}

template <typename C>
void cross_entropy_of(KernelContext const& context, KernelCall const& call) {
  Operand const& softmax = call.writes[0];
  LogitRows const all = expect_logits(context.tensor_rank, call, softmax);
  expect_tokens(call, call.reads[1], softmax.type, softmax);
  expect_tokens(call, call.reads[2], softmax.type, softmax);
  expect_tokens(call, call.reads[3], ElementType::i64, softmax);
  expect_tokens(call, call.writes[1], softmax.type, softmax);
  for_row_ranges(*context.pool, all.rows, all.words, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      C* const x = elements_of<C>(softmax) + row * all.words;
      C const sum = elements_of<C>(call.reads[1])[row];
      C const inverse = C{1} / sum;
      for (std::int64_t i = 0; i < all.words; ++i) x[i] *= inverse;
      elements_of<C>(call.writes[1])[row] = std::log(sum) - elements_of<C>(call.reads[2])[row];
    }
  });
}

template <typename C>
void cross_entropy_backward_of(KernelContext const& context, KernelCall const& call) {
  Operand const& softmax = call.writes[0];
  LogitRows const all = expect_logits(context.tensor_rank, call, softmax);
  expect_tokens(call, call.reads[1], ElementType::i64, softmax);
  auto const* const labels = elements_of<std::int64_t>(call.reads[1]);
  auto const factor = static_cast<C>(call.loss_gradient);
  for_row_ranges(*context.pool, all.rows, all.words, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      C* const x = elements_of<C>(softmax) + row * all.words;
      std::int64_t const column = all.column_of(labels[row]);
      if (column >= 0) x[column] -= C{1};
      for (std::int64_t i = 0; i < all.words; ++i) x[i] *= factor;
    }
  });
}

/// A copy in another type: f32, or back to the type of the model.
void convert_logits(KernelContext const& context, KernelCall const& call) {
  Operand const& from = call.reads[0];
  Operand const& to = call.writes[0];
  bool const widens = call.kind == OpKind::widen_logits;
  expect_tensor(call, widens ? to : from, ElementType::f32, from.shape);
  std::int64_t const n = from.shape.elements();
  ElementType const narrow_type = widens ? from.type : to.type;
  with_storage_type(call.kind, narrow_type, [&](auto tag) {
    using S = decltype(tag);
    expect_tensor(call, widens ? from : to, element_type<S>(), from.shape);
    for_row_ranges(*context.pool, n, 1, [&](std::int64_t begin, std::int64_t end) {
      if (widens) {
        S const* const x = elements_of<S>(from);
        auto* const y = elements_of<float>(to);
        for (std::int64_t i = begin; i < end; ++i) y[i] = static_cast<float>(widen(x[i]));
      } else {
        auto const* const x = elements_of<float>(from);
        S* const y = elements_of<S>(to);
        for (std::int64_t i = begin; i < end; ++i) y[i] = narrow<S>(x[i]);
      }
    });
  });
}

}  // namespace

void widen_logits(KernelContext const& context, KernelCall const& call) {
  convert_logits(context, call);
}

void narrow_logits(KernelContext const& context, KernelCall const& call) {
  convert_logits(context, call);
}

/// The maximum is -infinity if all of this rank's columns are padding.
void logits_maximum(KernelContext const& context, KernelCall const& call) {
  Operand const& logits = call.reads[0];
  LogitRows const all = expect_logits(context.tensor_rank, call, logits);
  expect_tokens(call, call.writes[0], logits.type, logits);
  with_logit_type(call, logits.type, [&](auto tag) {
    using C = decltype(tag);
    for_row_ranges(*context.pool, all.rows, all.words, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        C const* const x = elements_of<C>(logits) + row * all.words;
        elements_of<C>(call.writes[0])[row] = lane_maximum<C>(
            all.valid, -std::numeric_limits<C>::infinity(), [&](std::int64_t i) { return x[i]; });
      }
    });
  });
}

void exponentials(KernelContext const& context, KernelCall const& call) {
  with_logit_type(call, call.reads[0].type,
                  [&](auto tag) { exponentials_of<decltype(tag)>(context, call); });
}

void cross_entropy(KernelContext const& context, KernelCall const& call) {
  with_logit_type(call, call.reads[0].type,
                  [&](auto tag) { cross_entropy_of<decltype(tag)>(context, call); });
}

void cross_entropy_backward(KernelContext const& context, KernelCall const& call) {
  with_logit_type(call, call.reads[0].type,
                  [&](auto tag) { cross_entropy_backward_of<decltype(tag)>(context, call); });
}

}  // namespace stagecraft::STAGECRAFT_ISA
