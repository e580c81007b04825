#pragma once

#include <cstddef>
#include <cstdint>

#include "libexec/kernels/element.hpp"
#include "libexec/kernels/formulas.hpp"
#include "libexec/kernels/host_device.hpp"
#include "libexec/kernels/operand_checks.hpp"

/// Activations as types, and the operand checks of their kernels.
namespace stagecraft {

/// An activation: its value and its slope.
struct Gelu {
  template <typename C>
  STAGECRAFT_HOST_DEVICE static C value(C x) {
    return gelu(x);
  }
  template <typename C>
  STAGECRAFT_HOST_DEVICE static C slope(C x) {
    return gelu_derivative(x);
  }
};
struct Silu {
  template <typename C>
  STAGECRAFT_HOST_DEVICE static C value(C x) {
    return silu(x);
  }
  template <typename C>
  STAGECRAFT_HOST_DEVICE static C slope(C x) {
    return silu_derivative(x);
  }
};
/// The slope follows from the value, so relu_backward reads y.
struct Relu {
  template <typename C>
  STAGECRAFT_HOST_DEVICE static C value(C x) {
    return x > C{0} ? x : x * C{0};  // keeps NaN
  }
  template <typename C>
  STAGECRAFT_HOST_DEVICE static C slope_at_value(C y) {
    return y > C{0} ? C{1} : C{0};
  }
};

/// The bias of `columns` elements, operand `index`; null if there is none.
template <typename S>
S const* optional_bias(KernelCall const& call, std::size_t index, std::int64_t columns) {
  if (call.reads.size() <= index) return nullptr;
  expect_tensor(call, call.reads[index], element_type<S>(), {columns});
  return elements_of<S>(call.reads[index]);
}

/// Expects x [..., branches f] and y [..., f]. Returns f.
template <typename S>
std::int64_t expect_activation(KernelCall const& call,
                               Operand const& x,
                               Operand const& y,
                               std::int64_t branches) {
  expect(call, y.shape.rank() > 0 && last_extent(y) > 0, "an operand has no columns");
  expect_tensor(call, y, element_type<S>(), y.shape);
  expect_elements(call, x, element_type<S>(), branches * y.shape.elements());
  expect(call, last_extent(x) == branches * last_extent(y), "the widths do not fit together");
  return last_extent(y);
}

}  // namespace stagecraft
