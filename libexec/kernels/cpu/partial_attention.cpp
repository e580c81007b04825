#include <cmath>

#include "libexec/kernels/element.hpp"
#include "libexec/kernels/formulas.hpp"
#include "libexec/kernels/kernels.hpp"
#include "libexec/kernels/lanes.hpp"
#include "libexec/kernels/operands/attention_operands.hpp"

namespace stagecraft::STAGECRAFT_ISA {
namespace {

// Parts of attention, each over some of the keys, become attention over all of them.
// Source: Milakov and Gimelshein 2018, arXiv:1805.02867.

/// context [s, b, heads d] = (context +) part exp(part_log_sums - log_sums), the sums [b, heads,
/// s].
template <typename S>
void rescale(KernelContext const& context, KernelCall const& call, bool adds) {
  using C = Compute<S>;
  RescaledPart const all = rescaled_part<S>(call, adds);
  std::int64_t const s = all.shape.s;
  std::int64_t const b = all.shape.b;
  std::int64_t const heads = all.shape.heads;
  std::int64_t const d = all.shape.d;
  S const* const from = elements_of<S>(all.part);
  S* const to = elements_of<S>(call.writes[0]);
  C const* const of_part = elements_of<C>(all.part_sums);
  C const* const of_all = elements_of<C>(all.sums);
  for_row_ranges(*context.pool, s, b * heads * d, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      for (std::int64_t head = 0; head < b * heads; ++head) {
        C const share = std::exp(of_part[head * s + row] - of_all[head * s + row]);
        std::int64_t const place = (row * b * heads + head) * d;
        for (std::int64_t e = 0; e < d; ++e) {
          C const before = adds ? widen(to[place + e]) : C{0};
          to[place + e] = narrow<S>(before + share * widen(from[place + e]));
        }
      }
    }
  });
}

/// d_sinks[head] -= the sum over all rows of exp(sink - log_sum) (d_context . context): a sink has
/// a value of zeros, so the gradient of its probability comes from the softmax alone.
template <typename S>
void sinks_gradient_of(KernelContext const& context, KernelCall const& call) {
  using C = Compute<S>;
  ContextShape const shape = sinks_shape<S>(call);
  S const* const gradients = elements_of<S>(call.reads[0]);
  S const* const values = elements_of<S>(call.reads[1]);
  C const* const log_sums = elements_of<C>(call.reads[2]);
  S const* const sinks = elements_of<S>(call.reads[3]);
  C* const d_sinks = elements_of<C>(call.writes[0]);
  context.pool->run(shape.heads, [&](std::int64_t head, int) {
    C const sink = widen(sinks[head]);
    C sum = 0;
    for (std::int64_t sequence = 0; sequence < shape.b; ++sequence) {
      for (std::int64_t row = 0; row < shape.s; ++row) {
        std::int64_t const place = ((row * shape.b + sequence) * shape.heads + head) * shape.d;
        C const product = lane_sum<C>(shape.d, [&](std::int64_t i) {
          return widen(gradients[place + i]) * widen(values[place + i]);
        });
        sum += std::exp(sink - log_sums[(sequence * shape.heads + head) * shape.s + row]) * product;
      }
    }
    d_sinks[head] -= sum;
  });
}

}  // namespace

void rescale_context(KernelContext const& context, KernelCall const& call) {
  with_storage_type(call, [&](auto tag) { rescale<decltype(tag)>(context, call, false); });
}

void add_rescaled_context(KernelContext const& context, KernelCall const& call) {
  with_storage_type(call, [&](auto tag) { rescale<decltype(tag)>(context, call, true); });
}

void add_log_sums(KernelContext const& context, KernelCall const& call) {
  with_storage_type(call, [&](auto tag) {
    using C = Compute<decltype(tag)>;
    auto const of = expect_add_log_sums<C>(call);
    for_row_ranges(*context.pool, of.elements, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        of.sums[i] = add_logarithms(of.sums[i], of.part[i]);
      }
    });
  });
}

void sinks_gradient(KernelContext const& context, KernelCall const& call) {
  with_storage_type(call.kind, call.reads[1].type,
                    [&](auto tag) { sinks_gradient_of<decltype(tag)>(context, call); });
}

}  // namespace stagecraft::STAGECRAFT_ISA
