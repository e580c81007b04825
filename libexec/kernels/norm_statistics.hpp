#pragma once

#include <cstdint>

#include "libexec/kernels/element.hpp"
#include "libexec/kernels/host_device.hpp"
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

}  // namespace stagecraft
