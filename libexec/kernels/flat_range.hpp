#pragma once

#include <cstddef>
#include <cstdint>

#include "libexec/kernels/kernel_call.hpp"

namespace stagecraft {

/// Consecutive elements of a buffer.
struct FlatRange {
  void* data = nullptr;
  ElementType type = ElementType::f32;
  std::int64_t elements = 0;

  /// Elements [first, first + count).
  FlatRange part(std::int64_t first, std::int64_t count) const {
    return {static_cast<std::byte*>(data) + first * element_size(type), type, count};
  }
  std::size_t bytes() const { return static_cast<std::size_t>(elements * element_size(type)); }
  Operand operand() const {
    return {.data = data, .type = type, .shape = {elements}, .strides = {}};
  }
};

}  // namespace stagecraft
