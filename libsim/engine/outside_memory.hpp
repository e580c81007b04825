#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "libsim/hardware/system.hpp"
#include "libsim/plan/training_plan.hpp"

namespace stagecraft {

/// The memory of a rank's accelerator that is outside its framework's allocator, in bytes.
struct OutsideMemory {
  std::int64_t driver = 0;
  std::int64_t context = 0;
  std::int64_t communicators = 0;  ///< NCCL's buffers
  int communicator_count = 0;

  std::int64_t sum() const { return driver + context + communicators; }

  friend bool operator==(OutsideMemory const&, OutsideMemory const&) = default;
};

/// From section `device` of the system, for the first rank of a stage. Each of the plan's groups
/// with several members is a communicator; groups with the same members are one. A communicator has
/// the buffers of a ring on the node and over the network. Pipeline neighbours have buffers of
/// their own. nullopt if the system does not say.
std::optional<OutsideMemory> outside_memory(TrainingPlan const& plan,
                                            System const& system,
                                            StagePlan const& stage);

/// The memory of the accelerator that a stage cannot reserve: memory.reserve, if the run sets it;
/// else the sum of OutsideMemory, or the usual reserve if that is not known.
std::int64_t bytes_outside(TrainingPlan const& plan, System const& system, StagePlan const& stage);

/// Whether memory.reserve, set or usual, has a part in the verdict of a run: unless the allocator
/// decides beside what the system says of its devices.
bool keeps_reserve(MemoryConfig const& memory, System const& system);

/// What the ranks of a node have in its memory together, of the node whose ranks have most. Ranks
/// fill nodes in the order of their numbers.
Bytes fullest_host(TrainingPlan const& plan, System const& system);

}  // namespace stagecraft
