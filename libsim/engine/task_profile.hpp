#pragma once

#include <cstdint>
#include <vector>

#include "libsim/cost/cost_model.hpp"
#include "libsim/engine/block_times.hpp"
#include "libsim/engine/memory_profile.hpp"
#include "libsim/plan/training_plan.hpp"

namespace stagecraft {

/// Times and memory of a block, both passes.
struct BlockProfile {
  PassTimes forward;
  PassTimes backward;
  MemoryProfile forward_memory;
  MemoryProfile backward_memory;

  PassTimes const& times(Pass pass) const { return pass == Pass::forward ? forward : backward; }
  MemoryProfile const& memory(Pass pass) const {
    return pass == Pass::forward ? forward_memory : backward_memory;
  }
};

/// Where an iteration's time is counted.
struct TimeShares {
  SimTime forward{0};
  SimTime backward{0};
  SimTime recompute{0};
  SimTime head_and_embedding{0};
  SimTime data_parallel{0};
  SimTime optimizer{0};

  SimTime sum() const;
  TimeShares& operator+=(TimeShares const& other);
};

/// Summary of a Task: all that the iteration's simulation needs of what it computes.
struct TaskProfile {
  SimTime duration{0};
  TimeShares shares;  ///< sum to the duration
  MemoryProfile memory;
  SimTime peak_offset{0};  ///< from the task's start to the op that makes the memory peak
};

/// Profiles of all distinct blocks of a plan.
std::vector<BlockProfile> profile_blocks(TrainingPlan const& plan, CostModel const& cost);

/// Composes a task of a rank from its blocks (every block drains its streams, so times add up).
TaskProfile profile_task(TrainingPlan const& plan,
                         StagePlan const& rank,
                         Task const& task,
                         std::vector<BlockProfile> const& blocks,
                         CostModel const& cost);

/// All tasks of a rank.
std::vector<TaskProfile> profile_tasks(TrainingPlan const& plan,
                                       StagePlan const& rank,
                                       std::vector<BlockProfile> const& blocks,
                                       CostModel const& cost);

}  // namespace stagecraft
