#pragma once

#include "libsim/hardware/system.hpp"

namespace stagecraft {

/// The latency and bandwidth that give the times of two sizes (bytes that a rank moves, seconds).
CollectiveCost line_through(double small_bytes, double small, double large_bytes, double large);

/// The latency and bandwidth of a collective among `ranks` threads of this process, from the times
/// of a small and a large tensor. Bytes are counted as the model of a CollectiveCost counts them.
CollectiveCost measure_thread_collective(OpKind kind, int ranks);

/// The same for a message from one thread to another.
CollectiveCost measure_thread_message();

}  // namespace stagecraft
