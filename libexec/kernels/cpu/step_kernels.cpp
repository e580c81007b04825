#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>

#include "libexec/kernels/element.hpp"
#include "libexec/kernels/kernels.hpp"
#include "libexec/kernels/lanes.hpp"
#include "libexec/kernels/operands/step_operands.hpp"

namespace stagecraft::STAGECRAFT_ISA {
namespace {

/// Scales a range in place; whether a result is infinite or not a number.
bool scale(KernelContext const& context, KernelCall const& call, double factor) {
  Operand const& range = call.writes[0];
  std::atomic<bool> overflow{false};
  with_wide_type(call, range, [&](auto tag) {
    using C = decltype(tag);
    auto* const x = elements_of<C>(range);
    auto const by = static_cast<C>(factor);
    for_row_ranges(*context.pool, range.shape.elements(), 1,
                   [&](std::int64_t begin, std::int64_t end) {
                     int bad = 0;
                     for (std::int64_t i = begin; i < end; ++i) {
                       x[i] *= by;
                       // A NaN fails the comparison.
                       bad |= std::abs(x[i]) <= std::numeric_limits<C>::max() ? 0 : 1;
                     }
                     if (bad != 0) overflow.store(true, std::memory_order_relaxed);
                   });
  });
  return overflow.load();
}

}  // namespace

void zero_gradients(KernelContext const& context, KernelCall const& call) {
  Operand const& range = call.writes[0];
  std::int64_t const size = element_size(range.type);
  auto* const bytes = elements_of<std::byte>(range);
  for_row_ranges(*context.pool, range.shape.elements(), 1,
                 [&](std::int64_t begin, std::int64_t end) {
                   std::fill(bytes + begin * size, bytes + end * size, std::byte{0});
                 });
}

void scale_gradients(KernelContext const& context, KernelCall const& call) {
  scale(context, call, attributes_of<ScaleAttributes>(call).factor);
}

void unscale_gradients(KernelContext const& context, KernelCall const& call) {
  if (scale(context, call, unscaling_factor(call))) note_overflow(call);
}

void clip_gradients(KernelContext const& context, KernelCall const& call) {
  double const factor = clip_factor(call);
  if (factor != 1) scale(context, call, factor);
}

void gradient_norm(KernelContext const& context, KernelCall const& call) {
  Operand const& range = call.reads[0];
  std::int64_t const elements = range.shape.elements();
  // Blocks are summed separately, then added in order; only a group of blocks is in flight at a
  // time, so that the memory for their sums does not grow with the range.
  constexpr std::int64_t block = 16384;
  constexpr std::int64_t group = 64;
  double total = 0;
  with_wide_type(call, range, [&](auto tag) {
    using C = decltype(tag);
    auto const* const x = elements_of<C const>(range);
    for (std::int64_t first = 0; first < elements; first += block * group) {
      double sums[group] = {};
      std::int64_t const rest = elements - first;
      std::int64_t const blocks = std::min(group, (rest + block - 1) / block);
      context.pool->run(blocks, [&](std::int64_t task, int) {
        C const* const values = x + first + task * block;
        sums[task] = lane_sum<double>(std::min(block, rest - task * block), [&](std::int64_t i) {
          auto const value = static_cast<double>(values[i]);
          return value * value;
        });
      });
      for (std::int64_t i = 0; i < blocks; ++i) total += sums[i];
    }
  });
  add_squares(call, total);
}

void adam(KernelContext const& context, KernelCall const& call) {
  expect_adam(call);
  if (is_skipped(call)) return;
  with_wide_type(call, call.reads[0], [&](auto tag) {
    using C = decltype(tag);
    AdamStep<C> const one{call};
    for_row_ranges(*context.pool, call.reads[0].shape.elements(), 1,
                   [&](std::int64_t begin, std::int64_t end) {
                     // The four ranges never overlap.
                     C* __restrict const p = elements_of<C>(call.writes[0]);
                     C* __restrict const m = elements_of<C>(call.writes[1]);
                     C* __restrict const v = elements_of<C>(call.writes[2]);
                     C const* __restrict const g = elements_of<C const>(call.reads[3]);
                     for (std::int64_t i = begin; i < end; ++i) {
                       one.update(p[i], m[i], v[i], g[i]);
                     }
                   });
  });
}

void adam_ahead(KernelContext const& context, KernelCall const& call) {
  expect_ahead(call);
  if (!steps_ahead(call)) return;
  AdamStep<float> const one{call};
  with_storage_type(call.kind, call.writes[0].type, [&](auto tag) {
    using S = decltype(tag);
    for_row_ranges(*context.pool, call.reads[0].shape.elements(), 1,
                   [&](std::int64_t begin, std::int64_t end) {
                     if constexpr (is_narrow<S>) {
                       auto const* const p = elements_of<float const>(call.reads[0]);
                       auto const* const m = elements_of<float const>(call.reads[1]);
                       auto const* const v = elements_of<float const>(call.reads[2]);
                       auto const* const g = elements_of<float const>(call.reads[3]);
                       auto* const to = elements_of<S>(call.writes[0]);
                       for (std::int64_t i = begin; i < end; ++i) {
                         float parameter = p[i];
                         float first = m[i];
                         float second = v[i];
                         one.update(parameter, first, second, g[i]);
                         to[i] = narrow<S>(parameter);
                       }
                     }
                   });
  });
}

void narrow_parameters(KernelContext const& context, KernelCall const& call) {
  expect_narrowing(call);
  if (is_skipped(call)) return;
  with_storage_type(call.kind, call.writes[0].type, [&](auto tag) {
    using S = decltype(tag);
    auto const* const from = elements_of<float const>(call.reads[0]);
    auto* const to = elements_of<S>(call.writes[0]);
    for_row_ranges(*context.pool, call.reads[0].shape.elements(), 1,
                   [&](std::int64_t begin, std::int64_t end) {
                     if constexpr (is_narrow<S>) {
                       for (std::int64_t i = begin; i < end; ++i) to[i] = narrow<S>(from[i]);
                     }
                   });
  });
}

}  // namespace stagecraft::STAGECRAFT_ISA
