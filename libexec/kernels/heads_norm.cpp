#include <algorithm>
#include <cmath>

#include "libexec/kernels/element.hpp"
#include "libexec/kernels/heads_view.hpp"
#include "libexec/kernels/kernels.hpp"
#include "libexec/kernels/lane_reduction.hpp"
#include "libexec/kernels/row_ranges.hpp"

namespace stagecraft::STAGECRAFT_ISA {
namespace {

/// What is normalized together: `together` neighbouring heads of a token.
struct HeadRows {
  std::int64_t b, heads, d;
  std::int64_t together;  ///< 1, or all heads
  std::int64_t rows;

  std::int64_t per_token() const { return heads / together; }
  std::int64_t columns() const { return together * d; }

  /// The d elements of head `k` of row `row`.
  template <typename S>
  S* head(HeadsView<S> const& view, std::int64_t row, std::int64_t k) const {
    std::int64_t const token = row / per_token();
    return view.head(token / b, token % b, row % per_token() * together + k);
  }
};

template <typename S>
HeadRows head_rows(KernelCall const& call, Operand const& x, Operand const& statistics) {
  expect(call, x.shape.rank() == 4 && x.shape[2] > 0 && x.shape[3] > 0,
         "x is not [s, b, heads, d]");
  expect_heads(call, x, element_type<S>(), x.shape);
  bool const across = attributes_of<HeadsNormAttributes>(call).across_heads;
  HeadRows rows{.b = x.shape[1],
                .heads = x.shape[2],
                .d = x.shape[3],
                .together = across ? x.shape[2] : 1,
                .rows = 0};
  rows.rows = x.shape[0] * x.shape[1] * rows.per_token();
  expect_tensor(call, statistics, element_type<Compute<S>>(), {1, rows.rows});
  return rows;
}

template <typename S>
void heads_norm_of(KernelContext const& context, KernelCall const& call) {
  using C = Compute<S>;
  HeadRows const all = head_rows<S>(call, call.reads[0], call.writes[1]);
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
  HeadRows const all = head_rows<S>(call, call.reads[1], call.reads[2]);
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
  HeadRows const all = head_rows<S>(call, call.reads[1], call.reads[2]);
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
