#pragma once

#include <cstdint>

#include "libexec/kernels/element.hpp"
#include "libexec/kernels/host_device.hpp"
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
  expect_tensor(call, statistics, element_type<C>(), {centred ? 2 : 1, rows});
  C* const values = elements_of<C>(statistics);
  return {rows, columns, centred ? values : nullptr, centred ? values + rows : values};
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
  expect_tensor(call, statistics, element_type<Compute<S>>(), {1, heads.rows});
  return heads;
}

}  // namespace stagecraft
