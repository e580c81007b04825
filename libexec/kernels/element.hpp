#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

#include "libexec/kernels/host_device.hpp"
#include "libexec/kernels/kernel_call.hpp"
#include "libexec/kernels/operands/operand_checks.hpp"
#include "libsim/program/tensor.hpp"

#ifdef __CUDACC__
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#endif

/// Storage types of elements, and the types in which they are computed on. Conversions have no
/// branches, so that loops over them become vector code. On a device they are single instructions
/// with the same results.
namespace stagecraft {

/// The upper half of an IEEE single.
struct BFloat16 {
  std::uint16_t bits = 0;
};

/// IEEE half precision.
struct Float16 {
  std::uint16_t bits = 0;
};

STAGECRAFT_HOST_DEVICE inline double widen(double x) { return x; }
STAGECRAFT_HOST_DEVICE inline float widen(float x) { return x; }
STAGECRAFT_HOST_DEVICE inline float widen(BFloat16 x) {
#ifdef __CUDA_ARCH__
  return __bfloat162float(__ushort_as_bfloat16(x.bits));
#else
  return std::bit_cast<float>(static_cast<std::uint32_t>(x.bits) << 16);
#endif
}
STAGECRAFT_HOST_DEVICE inline float widen(Float16 x) {
#ifdef __CUDA_ARCH__
  return __half2float(__ushort_as_half(x.bits));
#else
  std::uint32_t const sign = static_cast<std::uint32_t>(x.bits & 0x8000U) << 16;
  std::uint32_t const magnitude = x.bits & 0x7FFFU;
  // A subnormal is an integer times 2^-24. Otherwise the exponent's bias grows from 15 to 127; for
  // infinity and NaN the exponent then grows from 143 to 255.
  float const subnormal = static_cast<float>(static_cast<std::int32_t>(magnitude)) * 0x1p-24F;
  std::uint32_t const special = magnitude >= 0x7C00U ? 112U << 23 : 0U;
  std::uint32_t const normal = (magnitude << 13) + (112U << 23) + special;
  std::uint32_t const bits = magnitude < 0x400U ? std::bit_cast<std::uint32_t>(subnormal) : normal;
  return std::bit_cast<float>(bits | sign);
#endif
}

/// The nearest bfloat16, ties to even. A NaN stays a NaN.
STAGECRAFT_HOST_DEVICE inline BFloat16 to_bfloat16(float x) {
#ifdef __CUDA_ARCH__
  return {__bfloat16_as_ushort(__float2bfloat16_rn(x))};
#else
  auto const bits = std::bit_cast<std::uint32_t>(x);
  std::uint32_t const rounded = (bits + 0x7FFFU + (bits >> 16 & 1U)) >> 16;
  std::uint32_t const quiet_nan = bits >> 16 | 0x40U;
  bool const is_nan = (bits & 0x7FFFFFFFU) > 0x7F800000U;
  return {static_cast<std::uint16_t>(is_nan ? quiet_nan : rounded)};
#endif
}

/// The nearest half, ties to even; infinity from 65520 on. A NaN stays a NaN.
STAGECRAFT_HOST_DEVICE inline Float16 to_float16(float x) {
#ifdef __CUDA_ARCH__
  return {__half_as_ushort(__float2half_rn(x))};
#else
  auto const bits = std::bit_cast<std::uint32_t>(x);
  std::uint32_t const sign = bits >> 16 & 0x8000U;
  std::uint32_t const magnitude = bits & 0x7FFFFFFFU;
  // Below 2^-14: near 1/2 a float's last place is 2^-24, the smallest step of a half, so the
  // addition does the rounding.
  std::uint32_t const subnormal =
      std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5F) - 0x3F000000U;
  std::uint32_t const normal = (magnitude - (112U << 23) + 0xFFFU + (magnitude >> 13 & 1U)) >> 13;
  std::uint32_t const quiet_nan = 0x7E00U | (magnitude >> 13 & 0x3FFU);
  std::uint32_t result = magnitude < 0x38800000U ? subnormal : normal;
  result = magnitude >= 0x477FF000U ? 0x7C00U : result;
  result = magnitude > 0x7F800000U ? quiet_nan : result;
  return {static_cast<std::uint16_t>(result | sign)};
#endif
}

/// The type in which elements stored as S are computed on: double for double, otherwise float. It
/// is also the type of statistics, accumulated gradients and losses (accumulation_type()).
template <typename S>
using Compute = std::conditional_t<std::is_same_v<S, double>, double, float>;

/// Whether S is stored in 16 bits.
template <typename S>
inline constexpr bool is_narrow = sizeof(S) == 2;

/// `x` as stored.
template <typename S>
STAGECRAFT_HOST_DEVICE inline S narrow(Compute<S> x) {
  if constexpr (std::is_same_v<S, BFloat16>) {
    return to_bfloat16(x);
  } else if constexpr (std::is_same_v<S, Float16>) {
    return to_float16(x);
  } else {
    return x;
  }
}

template <typename S>
constexpr ElementType element_type() {
  if constexpr (std::is_same_v<S, std::uint8_t>) return ElementType::u8;
  if constexpr (std::is_same_v<S, std::int32_t>) return ElementType::i32;
  if constexpr (std::is_same_v<S, std::int64_t>) return ElementType::i64;
  if constexpr (std::is_same_v<S, BFloat16>) return ElementType::bf16;
  if constexpr (std::is_same_v<S, Float16>) return ElementType::f16;
  if constexpr (std::is_same_v<S, float>) return ElementType::f32;
  return ElementType::f64;
}

/// Expects a contiguous operand of S of this shape. Returns its elements.
template <typename S>
S* expect_tensor(KernelCall const& call, Operand const& operand, Shape const& shape) {
  expect_tensor(call, operand, element_type<S>(), shape);
  return elements_of<S>(operand);
}

/// Expects a contiguous operand of this number of elements of S. Returns them.
template <typename S>
S* expect_elements(KernelCall const& call, Operand const& operand, std::int64_t elements) {
  expect_elements(call, operand, element_type<S>(), elements);
  return elements_of<S>(operand);
}

/// Calls `body(S{})` for the storage type S of `type`.
/// \throws std::logic_error  naming `kind`, if elements of `type` are not numbers to compute on.
template <typename Body>
void with_storage_type(OpKind kind, ElementType type, Body const& body) {
  switch (type) {
    case ElementType::f16:
      return body(Float16{});
    case ElementType::bf16:
      return body(BFloat16{});
    case ElementType::f32:
      return body(float{});
    case ElementType::f64:
      return body(double{});
    case ElementType::u8:
    case ElementType::i32:
    case ElementType::i64:
    case ElementType::f8_e4m3:
    case ElementType::f8_e5m2:
    case ElementType::f4_e2m1:
      break;
  }
  refuse(kind, "its first operand is not of a floating-point type");
}

/// Calls `body(S{})` for the storage type S of the first operand that a call reads.
/// \throws std::logic_error  likewise.
template <typename Body>
void with_storage_type(KernelCall const& call, Body const& body) {
  with_storage_type(call.kind, call.reads[0].type, body);
}

}  // namespace stagecraft
