#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "libsim/engine/memory_profile.hpp"
#include "libsim/engine/task_profile.hpp"
#include "libsim/plan/training_plan.hpp"

namespace stagecraft {

/// Memory of one rank over an iteration. It moves in issue order, so it does not depend on times.
struct RankMemory {
  CategoryBytes at_peak;  ///< at the first instant where the sum (without workspace) is largest
  std::int64_t activation_peak = 0;  ///< largest activations + recomputed + communication
  std::int32_t peak_step = 0;        ///< step of StagePlan::steps that makes the peak
  std::int32_t in_flight_chunks =
      0;  ///< most (microbatch, chunk) pairs between forward and backward
};

/// What a step does to a rank's memory, messages included (plan/message_buffers.hpp).
MemoryProfile profile_step_memory(TrainingPlan const& plan,
                                  StagePlan const& rank,
                                  IssueEntry const& step,
                                  std::vector<TaskProfile> const& tasks);

/// What a chunk or step task does to a rank's memory, given its profile.
MemoryProfile task_memory(TrainingPlan const& plan, Task const& task, TaskProfile const& profile);

/// What a post of, or a wait for, messages does to a rank's memory: only their payloads and ends
/// count.
/// Pre: `kind` is post or wait.
MemoryProfile message_memory(TrainingPlan const& plan,
                             IssueEntry::Kind kind,
                             std::span<Transfer const> transfers);

/// What a rank holds at the start of an iteration: parameters, gradients, optimizer state.
CategoryBytes resident_memory(StagePlan const& rank);

RankMemory walk_memory(TrainingPlan const& plan,
                       StagePlan const& rank,
                       std::vector<TaskProfile> const& tasks);

}  // namespace stagecraft
