#pragma once

#include <cstdint>

#include "libexec/kernels/element.hpp"
#include "libexec/kernels/host_device.hpp"
#include "libexec/kernels/operands/bias_operands.hpp"
#include "libexec/kernels/operands/head_operands.hpp"
#include "libexec/kernels/operands/operand_checks.hpp"
#include "libexec/kernels/operands/unit_operands.hpp"

namespace stagecraft {

/// One row of a norm: `parts` runs of `width` adjacent elements. The columns are numbered through.
template <typename S>
struct NormRow {
  S* first;
  std::int64_t stride;  ///< from one part to the next
  std::int64_t width;

  STAGECRAFT_HOST_DEVICE S* part(std::int64_t k) const { return first + k * stride; }

  /// The element of a column; those up to the end of its part follow it.
  STAGECRAFT_HOST_DEVICE S* at(std::int64_t column) const {
    if (column < width) return first + column;
    // 32 bits are enough for a row, and much faster to divide on a GPU.
    auto const c = static_cast<std::uint32_t>(column);
    auto const w = static_cast<std::uint32_t>(width);
    return part(c / w) + c % w;
  }
};

/// What a norm normalizes together, and its statistics [2, rows] = mean, 1/std or [1, rows] =
/// 1/rms. The kinds `norm` have one part in a row, the last axis of x. Those of heads [s, b, heads,
/// d] have a head, or all heads of a token as parts.
template <typename C>
struct NormRows {
  std::int64_t rows = 0;
  std::int64_t parts = 1;  ///< of a row
  std::int64_t width = 0;  ///< of a part
  std::int64_t sequences = 1;
  std::int64_t per_token = 1;  ///< rows of a token
  C* mean = nullptr;           ///< null for RMS norms
  C* inverse = nullptr;        ///< 1 / sqrt(variance or mean square + epsilon)

  STAGECRAFT_HOST_DEVICE std::int64_t columns() const { return parts * width; }
  STAGECRAFT_HOST_DEVICE C mean_of(std::int64_t row) const {
    return mean == nullptr ? C{0} : mean[row];
  }

  template <typename S>
  STAGECRAFT_HOST_DEVICE NormRow<S> row(HeadsView<S> const& view, std::int64_t index) const {
    // Divisions are slow on a GPU: most norms need none.
    if (sequences == 1 && per_token == 1) {
      return {view.head(index, 0, 0), view.head_stride, width};
    }
    std::int64_t const token = index / per_token;
    return {view.head(token / sequences, token % sequences, index % per_token * parts),
            view.head_stride, width};
  }
};

/// Whether the kind is one of the norms of heads.
inline bool norms_heads(KernelCall const& call) {
  return std::holds_alternative<HeadsNormAttributes>(call.attributes);
}

inline bool subtracts_mean(KernelCall const& call) {
  return !norms_heads(call) && attributes_of<NormAttributes>(call).subtracts_mean();
}

/// Expects x with at least one column, and statistics that fit it.
template <typename S>
NormRows<Compute<S>> norm_rows_of(KernelCall const& call,
                                  Operand const& x,
                                  Operand const& statistics) {
  NormRows<Compute<S>> of;
  if (norms_heads(call)) {
    expect(call, x.shape.rank() == 4 && x.shape[2] > 0 && x.shape[3] > 0,
           "x is not [s, b, heads, d]");
    bool const across = attributes_of<HeadsNormAttributes>(call).across_heads;
    of.parts = across ? x.shape[2] : 1;
    of.width = x.shape[3];
    of.sequences = x.shape[1];
    of.per_token = x.shape[2] / of.parts;
  } else {
    expect(call, x.shape.rank() > 0 && last_extent(x) > 0, "x has no columns");
    of.width = last_extent(x);
  }
  of.rows = x.shape.elements() / of.columns();
  bool const centred = subtracts_mean(call);
  of.mean = expect_tensor<Compute<S>>(call, statistics, {centred ? 2 : 1, of.rows});
  of.inverse = centred ? of.mean + of.rows : of.mean;
  if (!centred) of.mean = nullptr;
  return of;
}

/// Expects a tensor or, of heads, a view with the shape of x.
template <typename S>
HeadsView<S> norm_view_of(KernelCall const& call, Operand const& operand, Operand const& x) {
  if (norms_heads(call)) {
    expect_heads(call, operand, element_type<S>(), x.shape);
    return HeadsView<S>{operand};
  }
  return HeadsView<S>{expect_tensor<S>(call, operand, x.shape), last_extent(x)};
}

template <typename S>
struct NormOperands {
  NormRows<Compute<S>> rows;
  HeadsView<S> x;
  S const* weight;
  S const* bias;  ///< null for RMS norms
  HeadsView<S> y;
  Compute<S> epsilon;
};

template <typename S>
NormOperands<S> expect_norm(KernelCall const& call) {
  expect(call, call.reads.size() == (subtracts_mean(call) ? 3 : 2),
         "a weight or a bias is missing or superfluous");
  Operand const& x = call.reads[0];
  auto const rows = norm_rows_of<S>(call, x, call.writes[1]);
  double const epsilon = norms_heads(call) ? attributes_of<HeadsNormAttributes>(call).epsilon
                                           : attributes_of<NormAttributes>(call).epsilon;
  return {rows,
          norm_view_of<S>(call, x, x),
          expect_tensor<S>(call, call.reads[1], {rows.columns()}),
          optional_bias<S>(call, 2, rows.columns()),
          norm_view_of<S>(call, call.writes[0], x),
          static_cast<Compute<S>>(epsilon)};
}

template <typename S>
struct NormBackwardOperands {
  NormRows<Compute<S>> rows;
  HeadsView<S> dy, x;
  S const* weight;
  HeadsView<S> dx;
};

template <typename S>
NormBackwardOperands<S> expect_norm_backward(KernelCall const& call) {
  Operand const& x = call.reads[1];
  auto const rows = norm_rows_of<S>(call, x, call.reads[2]);
  return {rows, norm_view_of<S>(call, call.reads[0], x), norm_view_of<S>(call, x, x),
          expect_tensor<S>(call, call.reads[3], {rows.columns()}),
          norm_view_of<S>(call, call.writes[0], x)};
}

template <typename S, typename G>
struct NormWeightGradientOperands {
  NormRows<Compute<S>> rows;
  HeadsView<S> dy, x;
  G* d_weight;
  G* d_bias;  ///< null for RMS norms
};

template <typename S, typename G>
NormWeightGradientOperands<S, G> expect_norm_weight_gradient(KernelCall const& call) {
  bool const centred = subtracts_mean(call);
  expect(call, call.writes.size() == (centred ? 2 : 1), "a gradient is missing or superfluous");
  Operand const& x = call.reads[1];
  auto const rows = norm_rows_of<S>(call, x, call.reads[2]);
  return {rows, norm_view_of<S>(call, call.reads[0], x), norm_view_of<S>(call, x, x),
          expect_tensor<G>(call, call.writes[0], {rows.columns()}),
          centred ? expect_tensor<G>(call, call.writes[1], {rows.columns()}) : nullptr};
}

}  // namespace stagecraft
