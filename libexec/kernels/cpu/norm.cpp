#include <algorithm>

#include "libexec/kernels/element.hpp"
#include "libexec/kernels/formulas.hpp"
#include "libexec/kernels/kernels.hpp"
#include "libexec/kernels/lanes.hpp"
#include "libexec/kernels/operands/norm_operands.hpp"

namespace stagecraft::STAGECRAFT_ISA {
namespace {

/// The sum of term(k, i) over the parts k of a row and their elements i.
template <typename C, typename Term>
C row_sum(NormRows<C> const& rows, Term const& term) {
  C sum = 0;
  for (std::int64_t k = 0; k < rows.parts; ++k) {
    sum += lane_sum<C>(rows.width, [&](std::int64_t i) { return term(k, i); });
  }
  return sum;
}

template <typename S>
void norm_of(KernelContext const& context, KernelCall const& call) {
  using C = Compute<S>;
  auto const of = expect_norm<S>(call);
  NormRows<C> const& rows = of.rows;
  auto const columns = static_cast<C>(rows.columns());
  std::int64_t const d = rows.width;
  for_row_ranges(
      *context.pool, rows.rows, rows.columns(), [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t index = begin; index < end; ++index) {
          NormRow<S> const x = rows.row(of.x, index);
          NormRow<S> const y = rows.row(of.y, index);
          C mean = 0;
          if (rows.mean != nullptr) {
            mean = row_sum(rows, [&](auto k, auto i) { return widen(x.part(k)[i]); }) / columns;
            rows.mean[index] = mean;
          }
          // A second pass avoids the cancellation in the difference of the means of x^2 and x.
          C const square = row_sum(rows, [&](auto k, auto i) {
            C const centred = widen(x.part(k)[i]) - mean;
            return centred * centred;
          });
          C const inverse = inverse_deviation(square / columns, of.epsilon);
          rows.inverse[index] = inverse;
          for (std::int64_t k = 0; k < rows.parts; ++k) {
            S const* const from = x.part(k);
            S const* const weight = of.weight + k * d;
            S* const to = y.part(k);
            auto const scaled = [&](std::int64_t i) {
              return normalized(widen(from[i]), mean, inverse) * widen(weight[i]);
            };
            if (of.bias == nullptr) {
              for (std::int64_t i = 0; i < d; ++i) to[i] = narrow<S>(scaled(i));
            } else {
              S const* const bias = of.bias + k * d;
              for (std::int64_t i = 0; i < d; ++i) to[i] = narrow<S>(scaled(i) + widen(bias[i]));
            }
          }
        }
      });
}

template <typename S>
void norm_backward_of(KernelContext const& context, KernelCall const& call) {
  using C = Compute<S>;
  auto const of = expect_norm_backward<S>(call);
  NormRows<C> const& rows = of.rows;
  auto const columns = static_cast<C>(rows.columns());
  std::int64_t const d = rows.width;
  for_row_ranges(
      *context.pool, rows.rows, rows.columns(), [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t index = begin; index < end; ++index) {
          NormRow<S> const dy = rows.row(of.dy, index);
          NormRow<S> const x = rows.row(of.x, index);
          NormRow<S> const dx = rows.row(of.dx, index);
          C const mean = rows.mean_of(index);
          C const inverse = rows.inverse[index];
          auto const g = [&](auto k, auto i) {
            return widen(dy.part(k)[i]) * widen(of.weight[k * d + i]);
          };
          auto const normal = [&](auto k, auto i) {
            return normalized(widen(x.part(k)[i]), mean, inverse);
          };
          C const mean_g = rows.mean == nullptr ? C{0} : row_sum(rows, g) / columns;
          C const mean_gx =
              row_sum(rows, [&](auto k, auto i) { return g(k, i) * normal(k, i); }) / columns;
          for (std::int64_t k = 0; k < rows.parts; ++k) {
            S* const to = dx.part(k);
            for (std::int64_t i = 0; i < d; ++i) {
              to[i] = narrow<S>(norm_slope(g(k, i), normal(k, i), mean_g, mean_gx, inverse));
            }
          }
        }
      });
}

/// Column sums of dy xhat, and of dy: over all rows in order, by blocks of columns of a part.
template <typename S, typename G>
void norm_weight_gradient_of(KernelContext const& context, KernelCall const& call) {
  using C = Compute<S>;
  constexpr std::int64_t block = 128;
  auto const of = expect_norm_weight_gradient<S, G>(call);
  NormRows<C> const& rows = of.rows;
  std::int64_t const blocks = (rows.width + block - 1) / block;
  context.pool->run(rows.parts * blocks, [&](std::int64_t task, int) {
    std::int64_t const k = task / blocks;
    std::int64_t const first = task % blocks * block;
    std::int64_t const width = std::min(block, rows.width - first);
    C weight_sum[block] = {};
    C bias_sum[block] = {};
    for (std::int64_t index = 0; index < rows.rows; ++index) {
      S const* const dy = rows.row(of.dy, index).part(k) + first;
      S const* const x = rows.row(of.x, index).part(k) + first;
      C const mean = rows.mean_of(index);
      C const inverse = rows.inverse[index];
      for (std::int64_t i = 0; i < width; ++i) {
        weight_sum[i] += widen(dy[i]) * normalized(widen(x[i]), mean, inverse);
        bias_sum[i] += widen(dy[i]);
      }
    }
    std::int64_t const column = k * rows.width + first;
    for (std::int64_t i = 0; i < width; ++i) add_to(of.d_weight[column + i], weight_sum[i]);
    if (of.d_bias == nullptr) return;
    for (std::int64_t i = 0; i < width; ++i) add_to(of.d_bias[column + i], bias_sum[i]);
  });
}

}  // namespace

void norm(KernelContext const& context, KernelCall const& call) {
  with_storage_type(call, [&](auto tag) { norm_of<decltype(tag)>(context, call); });
}

void norm_backward(KernelContext const& context, KernelCall const& call) {
  with_storage_type(call, [&](auto tag) { norm_backward_of<decltype(tag)>(context, call); });
}

void norm_weight_gradient(KernelContext const& context, KernelCall const& call) {
  with_storage_type(call, [&](auto tag) {
    using S = decltype(tag);
    with_gradient_type<S>(call, call.writes[0], [&](auto gradient) {
      norm_weight_gradient_of<S, decltype(gradient)>(context, call);
    });
  });
}

void heads_norm(KernelContext const& context, KernelCall const& call) { norm(context, call); }

void heads_norm_backward(KernelContext const& context, KernelCall const& call) {
  norm_backward(context, call);
}

void heads_norm_weight_gradient(KernelContext const& context, KernelCall const& call) {
  norm_weight_gradient(context, call);
}

}  // namespace stagecraft::STAGECRAFT_ISA
