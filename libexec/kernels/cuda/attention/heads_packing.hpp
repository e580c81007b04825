#pragma once

#include <cstdint>

#include "libexec/kernels/operands/operand_checks.hpp"

namespace stagecraft {

/// Whether each head of a view [s, b, heads, d] consists of whole, aligned accesses of `width`
/// elements.
template <typename S>
bool heads_can_pack(Operand const& heads, int width) {
  auto const address = reinterpret_cast<std::uintptr_t>(heads.data);
  return heads.shape[3] % width == 0 && heads.stride(0) % width == 0 &&
         heads.stride(1) % width == 0 && heads.stride(2) % width == 0 &&
         address % (sizeof(S) * static_cast<unsigned>(width)) == 0;
}

}  // namespace stagecraft
