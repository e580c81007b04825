#pragma once

#include <cstdint>

#include "libsim/model/op.hpp"

namespace stagecraft {

/// Bytes of an op as traces and reports count them: the payload of communication, the memory
/// traffic of kernels.
inline std::int64_t recorded_bytes(Op const& op) {
  return op.payload > Bytes{0} ? op.payload.count() : op.traffic.count();
}

}  // namespace stagecraft
