#include <algorithm>
#include <cmath>

#include "libexec/kernels/element.hpp"
#include "libexec/kernels/kernels.hpp"
#include "libexec/kernels/lanes.hpp"
#include "libexec/kernels/operands/head_operands.hpp"
#include "libexec/kernels/operands/norm_operands.hpp"

namespace stagecraft::STAGECRAFT_ISA {
namespace {

template <typename S>
void normalize_row(S const* x,
                   S const* weight,
                   S const* bias,
                   S* y,
                   std::int64_t n,
                   Compute<S> mean,
                   Compute<S> inverse) {
  if (bias == nullptr) {
    for (std::int64_t i = 0; i < n; ++i) {
      y[i] = narrow<S>((widen(x[i]) - mean) * inverse * widen(weight[i]));
    }
  } else {
    for (std::int64_t i = 0; i < n; ++i) {
      y[i] = narrow<S>((widen(x[i]) - mean) * inverse * widen(weight[i]) + widen(bias[i]));
    }
  }
}

template <typename S>
void norm_of(KernelContext const& context, KernelCall const& call) {
  using C = Compute<S>;
  auto const of = expect_norm<S>(call);
  auto const& moments = of.moments;
  std::int64_t const n = moments.columns;
  for_row_ranges(*context.pool, moments.rows, n, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      S const* const values = of.x + row * n;
      C mean = 0;
      if (moments.mean != nullptr) {
        mean = lane_sum<C>(n, [&](std::int64_t i) { return widen(values[i]); }) / static_cast<C>(n);
        moments.mean[row] = mean;
      }
      // A second pass avoids the cancellation in the difference of the means of x^2 and x.
      C const square = lane_sum<C>(n, [&](std::int64_t i) {
        C const centred = widen(values[i]) - mean;
        return centred * centred;
      });
      C const inverse = C{1} / std::sqrt(square / static_cast<C>(n) + of.epsilon);
      moments.inverse[row] = inverse;
      normalize_row(values, of.weight, of.bias, of.y + row * n, n, mean, inverse);
    }
  });
}

/// dx = (g - mean(g) - xhat mean(g xhat)) / std with g = dy weight; RMSNorm: without mean(g).
template <typename S>
void norm_backward_of(KernelContext const& context, KernelCall const& call) {
  using C = Compute<S>;
  auto const of = expect_norm_backward<S>(call);
  auto const& moments = of.moments;
  std::int64_t const n = moments.columns;
  S const* const weight = of.weight;
  for_row_ranges(*context.pool, moments.rows, n, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      S const* const dy = of.dy + row * n;
      S const* const values = of.x + row * n;
      S* const dx = of.dx + row * n;
      C const mean = moments.mean_of(row);
      C const inverse = moments.inverse[row];
      C mean_g = 0;
      if (moments.mean != nullptr) {
        mean_g = lane_sum<C>(n, [&](std::int64_t i) { return widen(dy[i]) * widen(weight[i]); }) /
                 static_cast<C>(n);
      }
      C const mean_gx = lane_sum<C>(n,
                                    [&](std::int64_t i) {
                                      return widen(dy[i]) * widen(weight[i]) *
                                             ((widen(values[i]) - mean) * inverse);
                                    }) /
                        static_cast<C>(n);
      for (std::int64_t i = 0; i < n; ++i) {
        C const normal = (widen(values[i]) - mean) * inverse;
        dx[i] = narrow<S>((widen(dy[i]) * widen(weight[i]) - mean_g - normal * mean_gx) * inverse);
      }
    }
  });
}

/// Column sums of dy xhat, and of dy: over all rows in order, by blocks of columns.
template <typename S>
void norm_weight_gradient_of(KernelContext const& context, KernelCall const& call) {
  using C = Compute<S>;
  constexpr std::int64_t block = 128;
  auto const of = expect_norm_weight_gradient<S>(call);
  auto const& moments = of.moments;
  std::int64_t const n = moments.columns;
  context.pool->run((n + block - 1) / block, [&](std::int64_t task, int) {
    std::int64_t const first = task * block;
    std::int64_t const width = std::min(block, n - first);
    C weight_sum[block] = {};
    C bias_sum[block] = {};
    for (std::int64_t row = 0; row < moments.rows; ++row) {
      S const* const dy = of.dy + row * n + first;
      S const* const values = of.x + row * n + first;
      C const mean = moments.mean_of(row);
      C const inverse = moments.inverse[row];
      for (std::int64_t i = 0; i < width; ++i) {
        weight_sum[i] += widen(dy[i]) * ((widen(values[i]) - mean) * inverse);
        bias_sum[i] += widen(dy[i]);
      }
    }
    for (std::int64_t i = 0; i < width; ++i) of.d_weight[first + i] += weight_sum[i];
    if (of.d_bias == nullptr) return;
    for (std::int64_t i = 0; i < width; ++i) of.d_bias[first + i] += bias_sum[i];
  });
}

template <typename S>
void heads_norm_of(KernelContext const& context, KernelCall const& call) {
  using C = Compute<S>;
  auto const of = expect_heads_norm<S>(call);
  NormedHeads const& all = of.all;
  for_row_ranges(*context.pool, all.rows, all.columns(), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      C square = 0;
      for (std::int64_t k = 0; k < all.together; ++k) {
        S const* const from = all.head(of.x, row, k);
        square +=
            lane_sum<C>(all.d, [&](std::int64_t i) { return widen(from[i]) * widen(from[i]); });
      }
      C const inverse = C{1} / std::sqrt(square / static_cast<C>(all.columns()) + of.epsilon);
      of.inverses[row] = inverse;
      for (std::int64_t k = 0; k < all.together; ++k) {
        S const* const from = all.head(of.x, row, k);
        S const* const w = of.weight + k * all.d;
        S* const to = all.head(of.y, row, k);
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
  auto const of = expect_heads_norm_backward<S>(call);
  NormedHeads const& all = of.all;
  for_row_ranges(*context.pool, all.rows, all.columns(), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      C const inverse = of.inverses[row];
      C dot = 0;
      for (std::int64_t k = 0; k < all.together; ++k) {
        S const* const d = all.head(of.dy, row, k);
        S const* const from = all.head(of.x, row, k);
        S const* const w = of.weight + k * all.d;
        dot += lane_sum<C>(all.d, [&](std::int64_t i) {
          return widen(d[i]) * widen(w[i]) * (widen(from[i]) * inverse);
        });
      }
      C const mean = dot / static_cast<C>(all.columns());
      for (std::int64_t k = 0; k < all.together; ++k) {
        S const* const d = all.head(of.dy, row, k);
        S const* const from = all.head(of.x, row, k);
        S const* const w = of.weight + k * all.d;
        S* const to = all.head(of.dx, row, k);
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
  auto const of = expect_heads_norm_weight_gradient<S>(call);
  NormedHeads const& all = of.all;
  std::int64_t const blocks = (all.d + block - 1) / block;
  context.pool->run(all.together * blocks, [&](std::int64_t task, int) {
    std::int64_t const k = task / blocks;
    std::int64_t const first = task % blocks * block;
    std::int64_t const width = std::min(block, all.d - first);
    C sum[block] = {};
    for (std::int64_t row = 0; row < all.rows; ++row) {
      S const* const d = all.head(of.dy, row, k) + first;
      S const* const from = all.head(of.x, row, k) + first;
      C const inverse = of.inverses[row];
      for (std::int64_t i = 0; i < width; ++i) sum[i] += widen(d[i]) * (widen(from[i]) * inverse);
    }
    C* const to = of.d_weight + k * all.d + first;
    for (std::int64_t i = 0; i < width; ++i) to[i] += sum[i];
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
  with_storage_type(call, [&](auto tag) { norm_weight_gradient_of<decltype(tag)>(context, call); });
}

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
