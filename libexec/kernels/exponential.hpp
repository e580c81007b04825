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

}  // namespace stagecraft
