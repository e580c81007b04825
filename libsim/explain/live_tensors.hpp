#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "libsim/plan/training_plan.hpp"

namespace stagecraft {

/// A buffer that a rank holds. Pointers lead into its plan.
struct LiveBuffer {
  BlockProgram const* block = nullptr;  ///< whose tensor it is; null: a message, in or out
  TensorId tensor = no_tensor;          ///< of the block
  Transfer::Payload payload = Transfer::Payload::activation;  ///< messages only
  Category category = Category::activations;
  std::int64_t bytes = 0;
  Op const* maker = nullptr;  ///< op that wrote it first; null: received from another stage
  std::int64_t layer = -1;    ///< of the model; -1 outside of layers
  std::int32_t chunk = 0;
  std::int32_t microbatch = 0;
};

/// Where in a rank's issue order its memory is looked at: as an op is issued, its buffers just
/// allocated; at a post of, or wait for, messages; or before the first step (neither).
struct MemoryEvent {
  std::int32_t step = 0;               ///< of RankPlan::steps
  Op const* op = nullptr;              ///< null unless an op is issued
  std::optional<Transfer> transfer{};  ///< whose buffer was allocated last
  std::int64_t layer = -1;             ///< of the model; -1 outside of layers
  std::int32_t chunk = -1;
  std::int32_t microbatch = -1;
};

/// What a rank holds at one event, beside parameters, their gradients and optimizer state.
struct LiveTensors {
  MemoryEvent event;
  std::vector<LiveBuffer> buffers;
};

/// Walks a rank's issue order, buffer by buffer, up to the first event at which it holds
/// `held` bytes in all (without workspace); with RankMemory::at_peak's sum that is the event at
/// which its memory peaks.
/// \throws std::logic_error  when the rank never holds so much.
LiveTensors live_tensors_at(TrainingPlan const& plan, RankPlan const& rank, std::int64_t held);

}  // namespace stagecraft
