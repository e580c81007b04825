#pragma once

#include <cstdint>

#include "libexec/kernels/host_device.hpp"
#include "libexec/kernels/operands/operand_checks.hpp"

namespace stagecraft {

/// A tensor or view [s, b, heads, d] whose last axis is contiguous.
template <typename S>
struct HeadsView {
  S* data = nullptr;
  std::int64_t position_stride = 0;
  std::int64_t sequence_stride = 0;
  std::int64_t head_stride = 0;

  explicit HeadsView(Operand const& operand)
      : data{elements_of<S>(operand)},
        position_stride{operand.stride(0)},
        sequence_stride{operand.stride(1)},
        head_stride{operand.stride(2)} {}

  /// The d elements of a head.
  STAGECRAFT_HOST_DEVICE S* head(std::int64_t position,
                                 std::int64_t sequence,
                                 std::int64_t head_index) const {
    return data + position * position_stride + sequence * sequence_stride +
           head_index * head_stride;
  }
};

}  // namespace stagecraft
