#pragma once

#include <cstdint>

#include "libexec/kernels/element.hpp"
#include "libexec/kernels/host_device.hpp"
#include "libexec/kernels/operands/bias_operands.hpp"
#include "libexec/kernels/operands/head_operands.hpp"
#include "libexec/kernels/operands/operand_checks.hpp"

namespace stagecraft {

/// Rows and columns of x, and its statistics [2, rows] = mean, 1/std or [1, rows] = 1/rms.
template <typename C>
struct NormStatistics {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  C* mean = nullptr;     ///< null for RMSNorm
  C* inverse = nullptr;  ///< 1 / sqrt(variance or mean square + epsilon)

  STAGECRAFT_HOST_DEVICE C mean_of(std::int64_t row) const {
    return mean == nullptr ? C{0} : mean[row];
  }
};

/// Expects x with at least one column, and statistics that fit it.
template <typename S>
NormStatistics<Compute<S>> statistics_of(KernelCall const& call,
                                         Operand const& x,
                                         Operand const& statistics) {
  using C = Compute<S>;
  expect(call, x.shape.rank() > 0 && last_extent(x) > 0, "x has no columns");
  std::int64_t const columns = last_extent(x);
  std::int64_t const rows = x.shape.elements() / columns;
  expect_tensor(call, x, element_type<S>(), x.shape);
  bool const centred = attributes_of<NormAttributes>(call).subtracts_mean();
  C* const values = expect_tensor<C>(call, statistics, {centred ? 2 : 1, rows});
  return {rows, columns, centred ? values : nullptr, centred ? values + rows : values};
}

template <typename S>
struct NormOperands {
  NormStatistics<Compute<S>> moments;
  S const* x;
  S const* weight;
  S const* bias;  ///< null for RMSNorm
  S* y;
  Compute<S> epsilon;
};

template <typename S>
NormOperands<S> expect_norm(KernelCall const& call) {
  auto const& norm = attributes_of<NormAttributes>(call);
  bool const centred = norm.subtracts_mean();
  expect(call, call.reads.size() == (centred ? 3 : 2),
         "a weight or a bias is missing or superfluous");
  Operand const& x = call.reads[0];
  auto const moments = statistics_of<S>(call, x, call.writes[1]);
  return {moments,
          elements_of<S>(x),
          expect_tensor<S>(call, call.reads[1], {moments.columns}),
          optional_bias<S>(call, 2, moments.columns),
          expect_tensor<S>(call, call.writes[0], x.shape),
          static_cast<Compute<S>>(norm.epsilon)};
}

template <typename S>
struct NormBackwardOperands {
  NormStatistics<Compute<S>> moments;
  S const* dy;
  S const* x;
  S const* weight;
  S* dx;
};

template <typename S>
NormBackwardOperands<S> expect_norm_backward(KernelCall const& call) {
  Operand const& x = call.reads[1];
  auto const moments = statistics_of<S>(call, x, call.reads[2]);
  return {moments, expect_tensor<S>(call, call.reads[0], x.shape), elements_of<S>(x),
          expect_tensor<S>(call, call.reads[3], {moments.columns}),
          expect_tensor<S>(call, call.writes[0], x.shape)};
}

template <typename S>
struct NormWeightGradientOperands {
  NormStatistics<Compute<S>> moments;
  S const* dy;
  S const* x;
  Compute<S>* d_weight;
  Compute<S>* d_bias;  ///< null for RMSNorm
};

template <typename S>
NormWeightGradientOperands<S> expect_norm_weight_gradient(KernelCall const& call) {
  using C = Compute<S>;
  bool const centred = attributes_of<NormAttributes>(call).subtracts_mean();
  expect(call, call.writes.size() == (centred ? 2 : 1), "a gradient is missing or superfluous");
  Operand const& x = call.reads[1];
  auto const moments = statistics_of<S>(call, x, call.reads[2]);
  std::int64_t const n = moments.columns;
  return {moments, expect_tensor<S>(call, call.reads[0], x.shape), elements_of<S>(x),
          expect_tensor<C>(call, call.writes[0], {n}),
          centred ? expect_tensor<C>(call, call.writes[1], {n}) : nullptr};
}

/// What the RMS norms of heads [s, b, heads, d] normalize together: `together` neighbouring heads
/// of a token, which are a row.
struct NormedHeads {
  std::int64_t b, heads, d;
  std::int64_t together;  ///< 1, or all heads
  std::int64_t rows;

  STAGECRAFT_HOST_DEVICE std::int64_t per_token() const { return heads / together; }
  STAGECRAFT_HOST_DEVICE std::int64_t columns() const { return together * d; }

  /// The d elements of head `k` of row `row`.
  template <typename S>
  STAGECRAFT_HOST_DEVICE S* head(HeadsView<S> const& view, std::int64_t row, std::int64_t k) const {
    std::int64_t const token = row / per_token();
    return view.head(token / b, token % b, row % per_token() * together + k);
  }
};

/// Expects x [s, b, heads, d], and statistics [1, rows] = 1/rms.
template <typename S>
NormedHeads normed_heads(KernelCall const& call, Operand const& x, Operand const& statistics) {
  expect(call, x.shape.rank() == 4 && x.shape[2] > 0 && x.shape[3] > 0,
         "x is not [s, b, heads, d]");
  expect_heads(call, x, element_type<S>(), x.shape);
  bool const across = attributes_of<HeadsNormAttributes>(call).across_heads;
  NormedHeads heads{.b = x.shape[1],
                    .heads = x.shape[2],
                    .d = x.shape[3],
                    .together = across ? x.shape[2] : 1,
                    .rows = 0};
  heads.rows = x.shape[0] * x.shape[1] * heads.per_token();
  expect_tensor<Compute<S>>(call, statistics, {1, heads.rows});
  return heads;
}

template <typename S>
struct HeadsNormOperands {
  NormedHeads all;
  HeadsView<S> x;
  S const* weight;
  HeadsView<S> y;
  Compute<S>* inverses;
  Compute<S> epsilon;
};

template <typename S>
HeadsNormOperands<S> expect_heads_norm(KernelCall const& call) {
  Operand const& x = call.reads[0];
  NormedHeads const all = normed_heads<S>(call, x, call.writes[1]);
  expect_heads(call, call.writes[0], element_type<S>(), x.shape);
  return {all,
          HeadsView<S>{x},
          expect_tensor<S>(call, call.reads[1], {all.columns()}),
          HeadsView<S>{call.writes[0]},
          elements_of<Compute<S>>(call.writes[1]),
          static_cast<Compute<S>>(attributes_of<HeadsNormAttributes>(call).epsilon)};
}

template <typename S>
struct HeadsNormBackwardOperands {
  NormedHeads all;
  HeadsView<S> dy, x;
  Compute<S> const* inverses;
  S const* weight;
  HeadsView<S> dx;
};

template <typename S>
HeadsNormBackwardOperands<S> expect_heads_norm_backward(KernelCall const& call) {
  Operand const& x = call.reads[1];
  NormedHeads const all = normed_heads<S>(call, x, call.reads[2]);
  expect_heads(call, call.reads[0], element_type<S>(), x.shape);
  expect_heads(call, call.writes[0], element_type<S>(), x.shape);
  return {all,
          HeadsView<S>{call.reads[0]},
          HeadsView<S>{x},
          elements_of<Compute<S>>(call.reads[2]),
          expect_tensor<S>(call, call.reads[3], {all.columns()}),
          HeadsView<S>{call.writes[0]}};
}

template <typename S>
struct HeadsNormWeightGradientOperands {
  NormedHeads all;
  HeadsView<S> dy, x;
  Compute<S> const* inverses;
  Compute<S>* d_weight;
};

template <typename S>
HeadsNormWeightGradientOperands<S> expect_heads_norm_weight_gradient(KernelCall const& call) {
  Operand const& x = call.reads[1];
  NormedHeads const all = normed_heads<S>(call, x, call.reads[2]);
  expect_heads(call, call.reads[0], element_type<S>(), x.shape);
  return {all, HeadsView<S>{call.reads[0]}, HeadsView<S>{x}, elements_of<Compute<S>>(call.reads[2]),
          expect_tensor<Compute<S>>(call, call.writes[0], {all.columns()})};
}

}  // namespace stagecraft
