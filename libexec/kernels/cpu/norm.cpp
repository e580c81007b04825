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
  Operand const& x = call.reads[0];
  auto const moments = statistics_of<S>(call, x, call.writes[1]);
  std::int64_t const n = moments.columns;
  expect_tensor(call, call.reads[1], element_type<S>(), {n});
  if (attributes_of<NormAttributes>(call).subtracts_mean())
    expect_tensor(call, call.reads[2], element_type<S>(), {n});
  expect_tensor(call, call.writes[0], element_type<S>(), x.shape);
  S const* const input = elements_of<S>(x);
  S const* const weight = elements_of<S>(call.reads[1]);
  S const* const bias = attributes_of<NormAttributes>(call).subtracts_mean()
                            ? elements_of<S>(call.reads[2])
                            : nullptr;
  S* const output = elements_of<S>(call.writes[0]);
  auto const epsilon = static_cast<C>(attributes_of<NormAttributes>(call).epsilon);
  for_row_ranges(*context.pool, moments.rows, n, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      S const* const values = input + row * n;
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
      C const inverse = C{1} / std::sqrt(square / static_cast<C>(n) + epsilon);
      moments.inverse[row] = inverse;
      normalize_row(values, weight, bias, output + row * n, n, mean, inverse);
    }
  });
}

/// dx = (g - mean(g) - xhat mean(g xhat)) / std with g = dy weight; RMSNorm: without mean(g).
template <typename S>
void norm_backward_of(KernelContext const& context, KernelCall const& call) {
  using C = Compute<S>;
  Operand const& x = call.reads[1];
  auto const moments = statistics_of<S>(call, x, call.reads[2]);
  std::int64_t const n = moments.columns;
  expect_tensor(call, call.reads[0], element_type<S>(), x.shape);
  expect_tensor(call, call.reads[3], element_type<S>(), {n});
  expect_tensor(call, call.writes[0], element_type<S>(), x.shape);
  S const* const gradient = elements_of<S>(call.reads[0]);
  S const* const input = elements_of<S>(x);
  S const* const weight = elements_of<S>(call.reads[3]);
  S* const output = elements_of<S>(call.writes[0]);
  for_row_ranges(*context.pool, moments.rows, n, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      S const* const dy = gradient + row * n;
      S const* const values = input + row * n;
      S* const dx = output + row * n;
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
  Operand const& x = call.reads[1];
  auto const moments = statistics_of<S>(call, x, call.reads[2]);
  std::int64_t const n = moments.columns;
  expect_tensor(call, call.reads[0], element_type<S>(), x.shape);
  for (std::size_t i = 0; i < call.writes.size(); ++i) {
    expect_tensor(call, call.writes[i], element_type<C>(), {n});
  }
  S const* const gradient = elements_of<S>(call.reads[0]);
  S const* const input = elements_of<S>(x);
  C* const d_weight = elements_of<C>(call.writes[0]);
  C* const d_bias = attributes_of<NormAttributes>(call).subtracts_mean()
                        ? elements_of<C>(call.writes[1])
                        : nullptr;
  context.pool->run((n + block - 1) / block, [&](std::int64_t task, int) {
    std::int64_t const first = task * block;
    std::int64_t const width = std::min(block, n - first);
    C weight_sum[block] = {};
    C bias_sum[block] = {};
    for (std::int64_t row = 0; row < moments.rows; ++row) {
      S const* const dy = gradient + row * n + first;
      S const* const values = input + row * n + first;
      C const mean = moments.mean_of(row);
      C const inverse = moments.inverse[row];
      for (std::int64_t i = 0; i < width; ++i) {
        weight_sum[i] += widen(dy[i]) * ((widen(values[i]) - mean) * inverse);
        bias_sum[i] += widen(dy[i]);
      }
    }
    for (std::int64_t i = 0; i < width; ++i) d_weight[first + i] += weight_sum[i];
    if (d_bias == nullptr) return;
    for (std::int64_t i = 0; i < width; ++i) d_bias[first + i] += bias_sum[i];
  });
}

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

void norm(KernelContext const& context, KernelCall const& call) {
  std::size_t const weights = attributes_of<NormAttributes>(call).subtracts_mean() ? 2 : 1;
  expect(call, call.reads.size() == 1 + weights, "a weight or a bias is missing or superfluous");
  with_storage_type(call, [&](auto tag) { norm_of<decltype(tag)>(context, call); });
}

void norm_backward(KernelContext const& context, KernelCall const& call) {
  with_storage_type(call, [&](auto tag) { norm_backward_of<decltype(tag)>(context, call); });
}

void norm_weight_gradient(KernelContext const& context, KernelCall const& call) {
  std::size_t const weights = attributes_of<NormAttributes>(call).subtracts_mean() ? 2 : 1;
  expect(call, call.writes.size() == weights, "a gradient is missing or superfluous");
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
