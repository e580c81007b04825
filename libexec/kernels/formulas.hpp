#pragma once

#include <cmath>
#include <cstdint>

#include "libexec/kernels/exponential.hpp"
#include "libexec/kernels/host_device.hpp"

/// The element-wise formulas that every backend computes with; T is float or double.
namespace stagecraft {

/// 1 / (1 + e^-x).
template <typename T>
STAGECRAFT_HOST_DEVICE inline T sigmoid(T x) {
  return T{1} / (T{1} + exponential(-x));
}

/// Twice the argument of the tanh in GELU: 2 sqrt(2/pi) (x + 0.044715 x^3).
template <typename T>
STAGECRAFT_HOST_DEVICE inline T gelu_argument(T x) {
  return static_cast<T>(1.5957691216057308) * (x + static_cast<T>(0.044715) * x * x * x);
}

/// GELU in its tanh form, x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))), as x sigmoid(2 ...).
/// Source: Hendrycks and Gimpel 2016, arXiv:1606.08415; (1 + tanh(u)) / 2 = sigmoid(2u).
template <typename T>
STAGECRAFT_HOST_DEVICE inline T gelu(T x) {
  return x * sigmoid(gelu_argument(x));
}

/// d gelu / dx.
template <typename T>
STAGECRAFT_HOST_DEVICE inline T gelu_derivative(T x) {
  T const gate = sigmoid(gelu_argument(x));
  T const slope = static_cast<T>(1.5957691216057308) * (T{1} + static_cast<T>(0.134145) * x * x);
  return gate + x * gate * (T{1} - gate) * slope;
}

/// SiLU, x sigmoid(x).
template <typename T>
STAGECRAFT_HOST_DEVICE inline T silu(T x) {
  return x * sigmoid(x);
}

/// d silu / dx.
template <typename T>
STAGECRAFT_HOST_DEVICE inline T silu_derivative(T x) {
  T const gate = sigmoid(x);
  return gate * (T{1} + x * (T{1} - gate));
}

/// The slope of tanh where its value is `tangent`.
template <typename T>
STAGECRAFT_HOST_DEVICE inline T tanh_slope(T tangent) {
  return T{1} - tangent * tangent;
}

/// A value within a cap, and its slope.
template <typename T>
struct Capped {
  T value;  ///< cap tanh(x / cap): close to x if x is small
  T slope;  ///< d value / dx
};

/// \param relative  x / cap
template <typename T>
STAGECRAFT_HOST_DEVICE inline Capped<T> capped(T relative, T cap) {
  T const tangent = std::tanh(relative);
  return {cap * tangent, tanh_slope(tangent)};
}

/// log(e^a + e^b). One of them may be -infinity.
template <typename T>
STAGECRAFT_HOST_DEVICE inline T add_logarithms(T a, T b) {
  T const high = a < b ? b : a;
  T const low = a < b ? a : b;
  return high + std::log1p(std::exp(low - high));
}

/// A pair of elements of a head.
template <typename T>
struct RotaryPair {
  T low, high;
};

/// The pair, turned by an angle with this cosine and sine.
template <typename T>
STAGECRAFT_HOST_DEVICE inline RotaryPair<T> turned(RotaryPair<T> pair, T cosine, T sine) {
  return {pair.low * cosine - pair.high * sine, pair.high * cosine + pair.low * sine};
}

/// The angle per position by which the pair (i, i + head_dim/2) of a head is rotated:
/// base^(-2 i / head_dim).
/// Source: Su et al. 2021, arXiv:2104.09864, with the pairs of GPT-NeoX.
STAGECRAFT_HOST_DEVICE inline double rotary_frequency(double base,
                                                      std::int64_t pair,
                                                      std::int64_t head_dim) {
  return ::pow(base, -2.0 * static_cast<double>(pair) / static_cast<double>(head_dim));
}

}  // namespace stagecraft
