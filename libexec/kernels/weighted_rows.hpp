#pragma once

#include <cstdint>
#include <type_traits>

#include "libexec/kernels/operands/activation_operands.hpp"

/// Activations times the probability of each row, and the operands of their kernels.
namespace stagecraft {

/// An activation that is not gated, as one whose `up` is absent.
template <typename Function>
struct Ungated {
  template <typename C>
  STAGECRAFT_HOST_DEVICE static C value(C x, C /*up*/) {
    return Function::value(x);
  }
  template <typename C>
  STAGECRAFT_HOST_DEVICE static C gate_gradient(C dy, C x, C /*up*/) {
    if constexpr (std::is_same_v<Function, Relu>) {
      return dy * Relu::slope_at_value(Relu::value(x));
    } else {
      return dy * Function::slope(x);
    }
  }
};

/// Calls body(function, is gated) for an activation.
template <typename Body>
void with_function(Activation activation, Body const& body) {
  switch (activation) {
    case Activation::gelu:
      return body(Ungated<Gelu>{}, std::false_type{});
    case Activation::relu:
      return body(Ungated<Relu>{}, std::false_type{});
    case Activation::swiglu:
      return body(Gated<Silu>{}, std::true_type{});
    case Activation::geglu:
      return body(Gated<Gelu>{}, std::true_type{});
    case Activation::swiglu_clamped:
      return body(ClampedSwiglu{}, std::true_type{});
  }
}

/// The operands of a call by row.
template <typename S>
struct WeightedRows {
  using C = Compute<S>;
  std::int64_t width;  ///< of the output
  std::int64_t input;  ///< of the input
  std::int64_t rows;
  C const* probabilities;
};

template <typename S>
WeightedRows<S> expect_weighted_rows(KernelCall const& call,
                                     Operand const& x,
                                     Operand const& probabilities,
                                     Operand const& y,
                                     int branches) {
  using C = Compute<S>;
  std::int64_t const width = expect_activation<S>(call, x, y, branches);
  std::int64_t const rows = y.shape.elements() / width;
  expect_elements(call, probabilities, element_type<C>(), rows);
  return {width, branches * width, rows, elements_of<C>(probabilities)};
}

/// Expects the operands of weighted_activation_backward.
template <typename S>
WeightedRows<S> expect_weighted_rows_backward(KernelCall const& call, int branches) {
  auto const all =
      expect_weighted_rows<S>(call, call.reads[1], call.reads[2], call.reads[0], branches);
  expect_tensor(call, call.writes[0], element_type<S>(), call.reads[1].shape);
  expect_elements(call, call.writes[1], element_type<Compute<S>>(), all.rows);
  return all;
}

/// The gradients of an activation's inputs; that of `up` is 0 if it is not gated.
template <typename C>
struct InputGradients {
  C gate;
  C up;
};

template <typename Function, bool is_gated, typename C>
STAGECRAFT_HOST_DEVICE InputGradients<C> input_gradients(C dy, C gate, C up) {
  if constexpr (is_gated) {
    return {Function::gate_gradient(dy, gate, up), Function::up_gradient(dy, gate, up)};
  } else {
    return {Function::gate_gradient(dy, gate, C{0}), C{0}};
  }
}

}  // namespace stagecraft
