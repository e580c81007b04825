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
void logits_maximum_of(KernelContext const& context, KernelCall const& call) {
  auto const of = expect_logits_maximum<C>(context.tensor_rank, call);
  LogitRows const& all = of.all;
  for_row_ranges(*context.pool, all.rows, all.words, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      C const* const x = of.logits + row * all.words;
      of.maximum[row] = lane_maximum<C>(all.valid, -std::numeric_limits<C>::infinity(),
                                        [&](std::int64_t i) { return x[i]; });
    }
  });
}

template <typename C>
void exponentials_of(KernelContext const& context, KernelCall const& call) {
  auto const of = expect_exponentials<C>(context.tensor_rank, call);
  LogitRows const& all = of.all;
  for_row_ranges(*context.pool, all.rows, all.words, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      C* const x = of.logits + row * all.words;
      C const maximum = of.maximum[row];
      std::int64_t const column = all.column_of(of.labels[row]);
      of.label_logit[row] = column < 0 ? C{0} : x[column] - maximum;
      for (std::int64_t i = 0; i < all.valid; ++i) x[i] = exponential(x[i] - maximum);
      std::fill(x + all.valid, x + all.words, C{0});
      of.sum[row] = lane_sum<C>(all.valid, [&](std::int64_t i) { return x[i]; });
    }
  });
}

template <typename C>
void cross_entropy_of(KernelContext const& context, KernelCall const& call) {
  auto const of = expect_cross_entropy<C>(context.tensor_rank, call);
  std::int64_t const words = of.all.words;
  for_row_ranges(*context.pool, of.all.rows, words, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      C* const x = of.softmax + row * words;
      C const sum = of.sum[row];
      C const inverse = C{1} / sum;
      for (std::int64_t i = 0; i < words; ++i) x[i] *= inverse;
      of.loss[row] = std::log(sum) - of.label_logit[row];
    }
  });
}

template <typename C>
void cross_entropy_backward_of(KernelContext const& context, KernelCall const& call) {
  auto const of = expect_cross_entropy_backward<C>(context.tensor_rank, call);
  std::int64_t const words = of.all.words;
  C const factor = of.factor;
  for_row_ranges(*context.pool, of.all.rows, words, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      C* const x = of.softmax + row * words;
      std::int64_t const column = of.all.column_of(of.labels[row]);
      if (column >= 0) x[column] -= C{1};
      for (std::int64_t i = 0; i < words; ++i) x[i] *= factor;
    }
  });
}

/// A copy in another type: f32, or back to the type of the model.
void convert_logits(KernelContext const& context, KernelCall const& call) {
  with_converted_logits(
      call, [&]<typename From, typename To>(From const* from, To* to, std::int64_t n) {
        for_row_ranges(*context.pool, n, 1, [&](std::int64_t begin, std::int64_t end) {
          for (std::int64_t i = begin; i < end; ++i) {
            to[i] = narrow<To>(static_cast<Compute<To>>(widen(from[i])));
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
  with_logit_type(call, call.reads[0].type,
                  [&](auto tag) { logits_maximum_of<decltype(tag)>(context, call); });
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
