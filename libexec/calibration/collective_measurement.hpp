#pragma once

#include "libsim/hardware/system.hpp"

namespace stagecraft {

/// Latency and bandwidth of a collective among `ranks` threads of this process, as the model of a
/// CollectiveCost counts bytes: through the times of a small and of a large tensor.
CollectiveCost measure_thread_collective(OpKind kind, int ranks);

/// Likewise of a message from one thread to another.
CollectiveCost measure_thread_message();

}  // namespace stagecraft
