#include <algorithm>
#include <cmath>

#include "libexec/kernels/element.hpp"
#include "libexec/kernels/heads_view.hpp"
#include "libexec/kernels/kernels.hpp"
#include "libexec/kernels/lane_reduction.hpp"
#include "libexec/kernels/normed_heads.hpp"
#include "libexec/kernels/row_ranges.hpp"

namespace stagecraft::STAGECRAFT_ISA {
namespace {

template <typename S>
void heads_norm_of(KernelContext const& context, KernelCall const& call) {
  using C = Compute<S>;
  NormedHeads const all = normed_heads<S>(call, call.reads[0], call.writes[1]);
  expect_tensor(call, call.reads[1], element_type<S>(), {all.columns()});
  expect_heads(call, call.writes[0], element_type<S>(), call.reads[0].shape);
  HeadsView<S> const x{call.reads[0]};
  HeadsView<S> const y{call.writes[0]};
  S const* const weight = elements_of<S>(call.reads[1]);
  C* const inverses = elements_of<C>(call.writes[1]);
  auto const epsilon = static_cast<C>(attributes_of<HeadsNormAttributes>(call).epsilon);
  for_row_ranges(*context.pool, all.rows, all.columns(), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      C square = 0;
      for (std::int64_t k = 0; k < all.together; ++k) {
        S const* const from = all.head(x, row, k);
        square +=
            lane_sum<C>(all.d, [&](std::int64_t i) { return widen(from[i]) * widen(from[i]); });
      }
      C const inverse = C{1} / std::sqrt(square / static_cast<C>(all.columns()) + epsilon);
      inverses[row] = inverse;
      for (std::int64_t k = 0; k < all.together; ++k) {
        S const* const from = all.head(x, row, k);
        S const* const w = weight + k * all.d;
        S* const to = all.head(y, row, k);
        for (std::int64_t i = 0; i < all.d; ++i) {
          to[i] = narrow<S>(widen(from[i]) * inverse * widen(w[i]));
        }
      }
    }
  });
}

/// dx = (g - xhat mean(g xhat)) / rms with g = dy weight.
template <typename S>
void heads_norm_backward_of(KernelContext const& context, KernelCall const& call) {
  using C = Compute<S>;
  NormedHeads const all = normed_heads<S>(call, call.reads[1], call.reads[2]);
  expect_heads(call, call.reads[0], element_type<S>(), call.reads[1].shape);
  expect_tensor(call, call.reads[3], element_type<S>(), {all.columns()});
  expect_heads(call, call.writes[0], element_type<S>(), call.reads[1].shape);
  HeadsView<S> const dy{call.reads[0]};
  HeadsView<S> const x{call.reads[1]};
  HeadsView<S> const dx{call.writes[0]};
  C const* const inverses = elements_of<C>(call.reads[2]);
  S const* const weight = elements_of<S>(call.reads[3]);
  for_row_ranges(*context.pool, all.rows, all.columns(), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      C const inverse = inverses[row];
      C dot = 0;
      for (std::int64_t k = 0; k < all.together; ++k) {
        S const* const d = all.head(dy, row, k);
        S const* const from = all.head(x, row, k);
        S const* const w = weight + k * all.d;
        dot += lane_sum<C>(all.d, [&](std::int64_t i) {
          return widen(d[i]) * widen(w[i]) * (widen(from[i]) * inverse);
        });
      }
      C const mean = dot / static_cast<C>(all.columns());
      for (std::int64_t k = 0; k < all.together; ++k) {
        S const* const d = all.head(dy, row, k);
        S const* const from = all.head(x, row, k);
        S const* const w = weight + k * all.d;
        S* const to = all.head(dx, row, k);
        for (std::int64_t i = 0; i < all.d; ++i) {
          C const normal = widen(from[i]) * inverse;
          to[i] = narrow<S>((widen(d[i]) * widen(w[i]) - normal * mean) * inverse);
        }
      }
    }
  });
}

/// Sums of dy xhat over all rows in order, by blocks of columns.
template <typename S>
void heads_norm_weight_gradient_of(KernelContext const& context, KernelCall const& call) {
  using C = Compute<S>;
  constexpr std::int64_t block = 128;
  NormedHeads const all = normed_heads<S>(call, call.reads[1], call.reads[2]);
  expect_heads(call, call.reads[0], element_type<S>(), call.reads[1].shape);
  expect_tensor(call, call.writes[0], element_type<C>(), {all.columns()});
  HeadsView<S> const dy{call.reads[0]};
  HeadsView<S> const x{call.reads[1]};
  C const* const inverses = elements_of<C>(call.reads[2]);
  C* const d_weight = elements_of<C>(call.writes[0]);
  std::int64_t const blocks = (all.d + block - 1) / block;
  context.pool->run(all.together * blocks, [&](std::int64_t task, int) {
    std::int64_t const k = task / blocks;
    std::int64_t const first = task % blocks * block;
    std::int64_t const width = std::min(block, all.d - first);
    C sum[block] = {};
    for (std::int64_t row = 0; row < all.rows; ++row) {
      S const* const d = all.head(dy, row, k) + first;
      S const* const from = all.head(x, row, k) + first;
      C const inverse = inverses[row];
      for (std::int64_t i = 0; i < width; ++i) sum[i] += widen(d[i]) * (widen(from[i]) * inverse);
    }
    C* const to = d_weight + k * all.d + first;
    for (std::int64_t i = 0; i < width; ++i) to[i] += sum[i];
  });
}

}  // namespace

void heads_norm(KernelContext const& context, KernelCall const& call) {
  with_storage_type(call, [&](auto tag) { heads_norm_of<decltype(tag)>(context, call); });
}

void heads_norm_backward(KernelContext const& context, KernelCall const& call) {
  with_storage_type(call, [&](auto tag) { heads_norm_backward_of<decltype(tag)>(context, call); });
}

void heads_norm_weight_gradient(KernelContext const& context, KernelCall const& call) {
  with_storage_type(call,
                    [&](auto tag) { heads_norm_weight_gradient_of<decltype(tag)>(context, call); });
}

}  // namespace stagecraft::STAGECRAFT_ISA
