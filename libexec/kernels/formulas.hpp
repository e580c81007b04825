#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "libexec/kernels/host_device.hpp"

namespace stagecraft {

/// e^x in double, from the standard library.
STAGECRAFT_HOST_DEVICE inline double exponential(double x) { return ::exp(x); }

/// e^x in float, without branches, so that loops over it become vector code; the error is at most 2
/// units in the last place. Overflows to infinity, underflows gradually to 0, keeps NaN.
///
/// Source: reduction to |r| <= ln(2)/2 by a two-part ln(2) and the polynomial of Cephes (Moshier),
/// single/expf.c.
STAGECRAFT_HOST_DEVICE inline float exponential(float x) {
#ifdef __CUDA_ARCH__
  return ::expf(x);
#else
  // Beyond these limits the result is 0 or infinity anyway; a NaN fails both comparisons and stays.
  float const low = x < -104.F ? -104.F : x;
  float const limited = low > 89.F ? 89.F : low;
  // Adding 1.5 * 2^23 rounds to an integer, which is then in the low bits of the sum.
  float const magic = 12582912.F;
  float const shifted = limited * 1.44269504088896341F + magic;
  float const n = shifted - magic;
  float const r = (limited - n * 0.693359375F) - n * -2.12194440e-4F;
  float p = 1.9875691500e-4F;
  p = p * r + 1.3981999507e-3F;
  p = p * r + 8.3334519073e-3F;
  p = p * r + 4.1665795894e-2F;
  p = p * r + 1.6666665459e-1F;
  p = p * r + 5.0000001201e-1F;
  p = (p * r) * r + r + 1.F;
  // 2^n as two factors: n reaches -150 and 128, beyond the exponents of one float.
  auto const exponent = static_cast<std::int32_t>(std::bit_cast<std::uint32_t>(shifted) -
                                                  std::bit_cast<std::uint32_t>(magic));
  std::int32_t const half = exponent >> 1;
  auto const first = std::bit_cast<float>(static_cast<std::uint32_t>(half + 127) << 23);
  auto const second = std::bit_cast<float>(static_cast<std::uint32_t>(exponent - half + 127) << 23);
  return p * first * second;
#endif
}

// The element-wise formulas that every backend computes with; T is float or double.

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

/// The slope of tanh at the point where its value is `tangent`.
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

/// What a norm divides a row by, as a factor; `square` is the variance or, of RMS norms, the mean
/// square.
template <typename T>
STAGECRAFT_HOST_DEVICE inline T inverse_deviation(T square, T epsilon) {
  return T{1} / std::sqrt(square + epsilon);
}

/// An element of a normalized row, before its weight; the mean of RMS norms is 0.
template <typename T>
STAGECRAFT_HOST_DEVICE inline T normalized(T x, T mean, T inverse) {
  return (x - mean) * inverse;
}

/// The gradient of x from that of its normalized row. Source: the chain rule over mean and inverse.
/// \param g        dy weight
/// \param normal   normalized x
/// \param mean_g   the mean of g over the row; 0 for RMS norms
/// \param mean_gx  the mean of g normal over the row
template <typename T>
STAGECRAFT_HOST_DEVICE inline T norm_slope(T g, T normal, T mean_g, T mean_gx, T inverse) {
  return (g - mean_g - normal * mean_gx) * inverse;
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
