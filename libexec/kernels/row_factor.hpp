#pragma once

#include <cstdint>

#include "libexec/kernels/element.hpp"
#include "libexec/kernels/formulas.hpp"
#include "libexec/kernels/host_device.hpp"
#include "libexec/kernels/operands/operand_checks.hpp"

/// The factors of rows, and the operands of the kernels that scale rows.
namespace stagecraft {

/// A factor and its derivative by what it is made of.
template <typename C>
struct Factor {
  C value;
  C slope;
};

template <typename C>
STAGECRAFT_HOST_DEVICE Factor<C> factor_of(RowFactor kind, C x) {
  if (kind == RowFactor::identity) return {x, C{1}};
  C const value = sigmoid(x);
  return {value, value * (C{1} - value)};
}

/// Calls body(element, factor) with their types: factors are of the elements' type, or of the type
/// in which these are computed.
template <typename Body>
void with_factor_types(KernelCall const& call,
                       Operand const& x,
                       Operand const& factors,
                       Body const& body) {
  with_storage_type(call.kind, x.type, [&](auto element) {
    using S = decltype(element);
    if (factors.type == element_type<S>()) {
      body(element, S{});
    } else {
      body(element, Compute<S>{});
    }
  });
}

/// Rows that are scaled.
struct ScaledRows {
  std::int64_t rows = 0;
  std::int64_t width = 0;
};

/// Expects the operands of scale_rows: elements of S, factors of F.
template <typename S, typename F>
ScaledRows expect_scaled_rows(KernelCall const& call) {
  Operand const& x = call.reads[0];
  std::int64_t const rows = call.reads[1].shape.elements();
  expect_tensor(call, x, element_type<S>(), x.shape);
  expect_elements(call, call.reads[1], element_type<F>(), rows);
  expect_tensor(call, call.writes[0], element_type<S>(), x.shape);
  return {rows, x.shape.elements() / rows};
}

/// Expects the operands of scale_rows_backward.
template <typename S, typename F>
ScaledRows expect_scaled_rows_backward(KernelCall const& call) {
  Operand const& x = call.reads[1];
  std::int64_t const rows = call.reads[2].shape.elements();
  expect_tensor(call, x, element_type<S>(), x.shape);
  expect_elements(call, call.reads[0], element_type<S>(), x.shape.elements());
  expect_elements(call, call.reads[2], element_type<F>(), rows);
  expect_tensor(call, call.writes[0], element_type<S>(), x.shape);
  expect_elements(call, call.writes[1], element_type<F>(), rows);
  return {rows, x.shape.elements() / rows};
}

}  // namespace stagecraft
