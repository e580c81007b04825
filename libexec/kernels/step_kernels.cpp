#include "libexec/kernels/step_kernels.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>

#include "libexec/kernels/adam_step.hpp"
#include "libexec/kernels/element.hpp"
#include "libexec/kernels/lane_reduction.hpp"
#include "libexec/kernels/row_ranges.hpp"

namespace stagecraft::STAGECRAFT_ISA {
void scale(WorkerPool& pool, FlatRange const& range, double factor) {
  with_wide_type(OpKind::scale_gradients, range.type, [&](auto tag) {
    using C = decltype(tag);
    auto* const x = static_cast<C*>(range.data);
    auto const by = static_cast<C>(factor);
    for_row_ranges(pool, range.elements, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) x[i] *= by;
    });
  });
}

bool unscale(WorkerPool& pool, FlatRange const& range, double factor) {
  std::atomic<bool> overflow{false};
  with_wide_type(OpKind::unscale_gradients, range.type, [&](auto tag) {
    using C = decltype(tag);
    auto* const x = static_cast<C*>(range.data);
    auto const by = static_cast<C>(factor);
    for_row_ranges(pool, range.elements, 1, [&](std::int64_t begin, std::int64_t end) {
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

double sum_of_squares(WorkerPool& pool, FlatRange const& range) {
  // Blocks are summed separately, then added in order; only a group of blocks is in flight at a
  // time, so that the memory for their sums does not grow with the range.
  constexpr std::int64_t block = 16384;
  constexpr std::int64_t group = 64;
  double total = 0;
  with_wide_type(OpKind::gradient_norm, range.type, [&](auto tag) {
    using C = decltype(tag);
    auto const* const x = static_cast<C const*>(range.data);
    for (std::int64_t first = 0; first < range.elements; first += block * group) {
      double sums[group] = {};
      std::int64_t const rest = range.elements - first;
      std::int64_t const blocks = std::min(group, (rest + block - 1) / block);
      pool.run(blocks, [&](std::int64_t task, int) {
        C const* const values = x + first + task * block;
        sums[task] = lane_sum<double>(std::min(block, rest - task * block), [&](std::int64_t i) {
          auto const value = static_cast<double>(values[i]);
          return value * value;
        });
      });
      for (std::int64_t i = 0; i < blocks; ++i) total += sums[i];
    }
  });
  return total;
}

void adam(WorkerPool& pool,
          AdamUpdate const& update,
          FlatRange const& parameters,
          FlatRange const& first_moment,
          FlatRange const& second_moment,
          FlatRange const& gradient) {
  expect_adam(update, parameters, first_moment, second_moment, gradient);
  with_wide_type(OpKind::adam, parameters.type, [&](auto tag) {
    using C = decltype(tag);
    AdamStep<C> const one{update};
    for_row_ranges(pool, parameters.elements, 1, [&](std::int64_t begin, std::int64_t end) {
      // The four ranges never overlap.
      C* __restrict const p = static_cast<C*>(parameters.data);
      C* __restrict const m = static_cast<C*>(first_moment.data);
      C* __restrict const v = static_cast<C*>(second_moment.data);
      C const* __restrict const g = static_cast<C const*>(gradient.data);
      for (std::int64_t i = begin; i < end; ++i) {
        one.update(p[i], m[i], v[i], g[i]);
      }
    });
  });
}

void narrow_parameters(WorkerPool& pool, FlatRange const& master, FlatRange const& parameters) {
  expect_narrowing(master, parameters);
  with_storage_type(OpKind::narrow_parameters, parameters.type, [&](auto tag) {
    using S = decltype(tag);
    auto const* const from = static_cast<float const*>(master.data);
    auto* const to = static_cast<S*>(parameters.data);
    for_row_ranges(pool, master.elements, 1, [&](std::int64_t begin, std::int64_t end) {
      if constexpr (is_narrow<S>) {
        for (std::int64_t i = begin; i < end; ++i) to[i] = narrow<S>(from[i]);
      }
    });
  });
}

}  // namespace stagecraft::STAGECRAFT_ISA
