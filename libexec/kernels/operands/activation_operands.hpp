#pragma once

#include <cstddef>
#include <cstdint>

#include "libexec/kernels/element.hpp"
#include "libexec/kernels/formulas.hpp"
#include "libexec/kernels/host_device.hpp"
#include "libexec/kernels/operands/bias_operands.hpp"
#include "libexec/kernels/operands/operand_checks.hpp"

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

/// A gated activation, y = f(gate) up, and its gradients.
template <typename Function>
struct Gated {
  template <typename C>
  STAGECRAFT_HOST_DEVICE static C value(C gate, C up) {
    return Function::value(gate) * up;
  }
  template <typename C>
  STAGECRAFT_HOST_DEVICE static C gate_gradient(C dy, C gate, C up) {
    return dy * up * Function::slope(gate);
  }
  template <typename C>
  STAGECRAFT_HOST_DEVICE static C up_gradient(C dy, C gate, C /*up*/) {
    return dy * Function::value(gate);
  }
};

/// The gated activation of GPT-OSS: g sigmoid(1.702 g) (u + 1) with g = min(gate, 7) and u = up in
/// [-7, 7].
/// Source: OpenAI 2025, arXiv:2508.10925; transformers, modeling_gpt_oss.py.
struct ClampedSwiglu {
  static constexpr double limit = 7;
  static constexpr double steepness = 1.702;

  template <typename C>
  STAGECRAFT_HOST_DEVICE static C clamped_gate(C gate) {
    return gate > C{limit} ? C{limit} : gate;
  }
  template <typename C>
  STAGECRAFT_HOST_DEVICE static C clamped_up(C up) {
    C const below = up > C{limit} ? C{limit} : up;
    return below < C{-limit} ? C{-limit} : below;
  }
  template <typename C>
  STAGECRAFT_HOST_DEVICE static C value(C gate, C up) {
    C const g = clamped_gate(gate);
    return g * sigmoid(static_cast<C>(steepness) * g) * (clamped_up(up) + C{1});
  }
  template <typename C>
  STAGECRAFT_HOST_DEVICE static C gate_gradient(C dy, C gate, C up) {
    C const g = clamped_gate(gate);
    C const open = sigmoid(static_cast<C>(steepness) * g);
    C const slope = open * (C{1} + static_cast<C>(steepness) * g * (C{1} - open));
    return gate > C{limit} ? C{0} : dy * slope * (clamped_up(up) + C{1});
  }
  template <typename C>
  STAGECRAFT_HOST_DEVICE static C up_gradient(C dy, C gate, C up) {
    C const g = clamped_gate(gate);
    return up == clamped_up(up) ? dy * g * sigmoid(static_cast<C>(steepness) * g) : C{0};
  }
};

/// Expects x [..., branches f] and y [..., f]. Returns f.
template <typename S>
std::int64_t expect_branches(KernelCall const& call,
                             Operand const& x,
                             Operand const& y,
                             std::int64_t branches) {
  expect(call, y.shape.rank() > 0 && last_extent(y) > 0, "an operand has no columns");
  expect_tensor<S>(call, y, y.shape);
  expect_elements<S>(call, x, branches * y.shape.elements());
  expect(call, last_extent(x) == branches * last_extent(y), "the widths do not fit together");
  return last_extent(y);
}

/// y = f(x + bias): gate and up of a gated activation are side by side in rows of x.
template <typename S>
struct ActivationOperands {
  std::int64_t rows;
  std::int64_t columns;  ///< of y
  S const* x;
  S const* bias;  ///< or null
  S* y;
};

/// `branches`: 2 if the activation is gated, otherwise 1.
template <typename S>
ActivationOperands<S> expect_activation(KernelCall const& call, std::int64_t branches) {
  Operand const& y = call.writes[0];
  std::int64_t const f = expect_branches<S>(call, call.reads[0], y, branches);
  return {y.shape.elements() / f, f, elements_of<S>(call.reads[0]),
          optional_bias<S>(call, 1, branches * f), elements_of<S>(y)};
}

template <typename S>
struct ActivationBackwardOperands {
  std::int64_t rows;
  std::int64_t columns;  ///< of dy
  S const* dy;
  S const* x;     ///< relu_backward: y
  S const* bias;  ///< or null
  S* dx;
};

template <typename S>
ActivationBackwardOperands<S> expect_activation_backward(KernelCall const& call,
                                                         std::int64_t branches) {
  Operand const& dy = call.reads[0];
  Operand const& x = call.reads[1];
  std::int64_t const f = expect_branches<S>(call, x, dy, branches);
  return {dy.shape.elements() / f,
          f,
          elements_of<S>(dy),
          elements_of<S>(x),
          optional_bias<S>(call, 2, branches * f),
          expect_tensor<S>(call, call.writes[0], x.shape)};
}

}  // namespace stagecraft
