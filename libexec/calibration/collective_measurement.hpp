#pragma once

#include "libsim/hardware/system.hpp"

namespace stagecraft {

/// Latency and bandwidth whose times are those of two sizes: bytes that a rank moves, and seconds.
CollectiveCost line_through(double small_bytes, double small, double large_bytes, double large);

/// Latency and bandwidth of a collective among `ranks` threads of this process, as the model of a
/// CollectiveCost counts bytes: through the times of a small and of a large tensor.
CollectiveCost measure_thread_collective(OpKind kind, int ranks);

/// Likewise of a message from one thread to another.
CollectiveCost measure_thread_message();

}  // namespace stagecraft
