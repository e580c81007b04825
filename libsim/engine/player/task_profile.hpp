#pragma once

#include <cstdint>
#include <vector>

#include "libsim/cost/cost_model.hpp"
#include "libsim/engine/player/block_times.hpp"
#include "libsim/plan/training_plan.hpp"

namespace stagecraft {

/// The times of all passes of a block.
struct BlockProfile {
  PassTimes forward;
  PassTimes backward;
  PassTimes input_gradient;   ///< 0 without a split backward
  PassTimes weight_gradient;  ///< 0 without a split backward
  PassTimes recompute;        ///< 0 unless it is a pass of its own

  PassTimes const& times(Pass pass) const {
    return pass == Pass::forward          ? forward
           : pass == Pass::backward       ? backward
           : pass == Pass::input_gradient ? input_gradient
           : pass == Pass::recompute      ? recompute
                                          : weight_gradient;
  }
};

/// The categories in which an iteration's time is counted.
struct TimeShares {
  SimTime forward{0};
  SimTime backward{0};
  SimTime recompute{0};
  SimTime head_and_embedding{0};
  SimTime data_parallel{0};
  SimTime optimizer{0};
  SimTime offload{0};

  SimTime sum() const;
  TimeShares& operator+=(TimeShares const& other);
  TimeShares& operator-=(TimeShares const& other);
};

/// The times of a Task: all that the simulation of an iteration needs of its ops.
struct TaskProfile {
  SimTime duration{0};
  TimeShares shares;      ///< sum to the duration
  TimeShares host_waits;  ///< parts of the shares in which it waits for the host to issue ops
  /// Part of the duration in which collectives use the links of gradient reductions.
  SimTime on_links{0};
  /// The time that this task and the one beside it (Task::beside) save together, forward and
  /// backward apart, by their exchanges. It is taken off this task, which comes second.
  TimeShares hidden{};

  /// How much of the shortened duration has passed when `alone` of the task's own time would have.
  SimTime beside(SimTime alone) const;
};

/// Profiles of all distinct blocks.
std::vector<BlockProfile> profile_blocks(Programs const& programs, CostModel const& cost);

/// Composes a task of a stage from its blocks (every block drains its streams, so times add up).
TaskProfile profile_task(Programs const& programs,
                         StagePlan const& stage,
                         Task const& task,
                         std::vector<BlockProfile> const& blocks,
                         CostModel const& cost);

/// The time from the start of a chunk's task to the issue of an op of one of its blocks, where
/// blocks are counted in the order in which they run (MemoryProfile::peak_block and peak_op). 0 if
/// `op` is -1, none.
SimTime offset_of_op(Programs const& programs,
                     Task const& task,
                     std::vector<BlockProfile> const& blocks,
                     std::int32_t block,
                     std::int32_t op);

}  // namespace stagecraft
