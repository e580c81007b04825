#include <algorithm>
#include <cmath>

#include "libexec/kernels/element.hpp"
#include "libexec/kernels/formulas.hpp"
#include "libexec/kernels/heads_view.hpp"
#include "libexec/kernels/kernels.hpp"
#include "libexec/kernels/operands/head_operands.hpp"
#include "libexec/kernels/row_ranges.hpp"

namespace stagecraft::STAGECRAFT_ISA {
namespace {

/// The number of pairs (i, i + d/2) that are rotated at a time.
constexpr std::int64_t pair_chunk = 64;

/// Rotates pairs [first, first + count) of every head of a row by direction (1 or -1) times
/// position times frequency. `from` and `to` may be the same memory.
template <typename S>
void rotate(Operand const& from,
            Operand const& to,
            double const* frequency,
            std::int64_t first,
            std::int64_t count,
            std::int64_t row,
            std::int64_t position,
            double direction) {
  using C = Compute<S>;
  C cosine[pair_chunk];
  C sine[pair_chunk];
  for (std::int64_t i = 0; i < count; ++i) {
    double const angle = static_cast<double>(position) * frequency[i];
    cosine[i] = static_cast<C>(std::cos(angle));
    sine[i] = static_cast<C>(direction * std::sin(angle));
  }
  HeadsView<S> const source{from};
  HeadsView<S> const target{to};
  std::int64_t const half = from.shape[3] / 2;
  for (std::int64_t sequence = 0; sequence < from.shape[1]; ++sequence) {
    for (std::int64_t head = 0; head < from.shape[2]; ++head) {
      S const* const x = source.head(row, sequence, head) + first;
      S* const y = target.head(row, sequence, head) + first;
      C low[pair_chunk];
      C high[pair_chunk];
      for (std::int64_t i = 0; i < count; ++i) {
        RotaryPair<C> const pair =
            turned(RotaryPair<C>{widen(x[i]), widen(x[half + i])}, cosine[i], sine[i]);
        low[i] = pair.low;
        high[i] = pair.high;
      }
      for (std::int64_t i = 0; i < count; ++i) y[i] = narrow<S>(low[i]);
      for (std::int64_t i = 0; i < count; ++i) y[half + i] = narrow<S>(high[i]);
    }
  }
}

void rotate_all(KernelContext const& context, KernelCall const& call, double direction) {
  expect_rotary(call);
  Shape const& q = call.reads[0].shape;
  double const base = attributes_of<RotaryAttributes>(call).base;
  std::int64_t const half = q[3] / 2;
  std::int64_t const row_cost = q.elements() / std::max<std::int64_t>(q[0], 1);
  with_storage_type(call, [&](auto tag) {
    for_row_ranges(*context.pool, q[0], row_cost, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t first = 0; first < half; first += pair_chunk) {
        std::int64_t const count = std::min(pair_chunk, half - first);
        double frequency[pair_chunk];
        for (std::int64_t i = 0; i < count; ++i) {
          frequency[i] = rotary_frequency(base, first + i, q[3]);
        }
        for (std::int64_t row = begin; row < end; ++row) {
          for (std::size_t i = 0; i < 2; ++i) {
            rotate<decltype(tag)>(call.reads[i], call.writes[i], frequency, first, count, row,
                                  context.sequence.row_of(row, q[0]), direction);
          }
        }
      }
    });
  });
}

}  // namespace

void rotary(KernelContext const& context, KernelCall const& call) { rotate_all(context, call, 1); }

void rotary_backward(KernelContext const& context, KernelCall const& call) {
  rotate_all(context, call, -1);
}

}  // namespace stagecraft::STAGECRAFT_ISA
