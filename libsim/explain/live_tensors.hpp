#pragma once

#include <cstdint>
#include <map>

#include "libsim/memory/buffer_events.hpp"
#include "libsim/plan/rank_programs.hpp"

namespace stagecraft {

/// A buffer that a stage holds. Pointers lead into its plan.
struct LiveBuffer {
  BufferChange role;          ///< its allocation, or the last time that it was taken over
  Op const* maker = nullptr;  ///< the op that wrote it first; null: received from another stage
  std::int64_t layer = -1;    ///< of the model; -1 outside of layers
  MicrobatchId microbatch = no_microbatch;
};

/// What a stage holds at one event, except for parameters, their gradients and optimizer state.
struct LiveTensors {
  BufferChange last;                           ///< the allocation that makes the event
  MicrobatchId microbatch = no_microbatch;     ///< of `last`
  std::map<std::int64_t, LiveBuffer> buffers;  ///< by BufferEvent::buffer
};

/// Follows a stage's buffers up to the first allocation after which it holds `held` bytes (without
/// workspace). If `held` is its peak, the result is what the stage holds at its peak.
/// \throws std::logic_error  if the stage never holds so much.
LiveTensors live_tensors_at(StageRank const& rank, std::int64_t held);

}  // namespace stagecraft
