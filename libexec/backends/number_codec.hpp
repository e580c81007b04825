#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "libsim/model/tensor.hpp"

namespace stagecraft {

/// Numbers as a tensor of an element type stores them, rounded to nearest, ties to even; to 16 bits
/// by way of fp32, as master copies are narrowed.
std::vector<std::byte> encode(std::span<double const> numbers, ElementType type);
/// The other way; exact.
std::vector<double> decode(std::span<std::byte const> bytes, ElementType type);

}  // namespace stagecraft
