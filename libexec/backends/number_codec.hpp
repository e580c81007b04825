#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "libsim/program/tensor.hpp"

namespace stagecraft {

/// Encodes numbers as a tensor of an element type stores them, rounded to nearest, ties to even; to
/// 16 bits through fp32, as master copies are narrowed.
std::vector<std::byte> encode(std::span<double const> numbers, ElementType type);
/// The inverse, which is exact.
std::vector<double> decode(std::span<std::byte const> bytes, ElementType type);

}  // namespace stagecraft
