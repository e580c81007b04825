#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "libsim/engine/memory_profile.hpp"
#include "libsim/engine/work_profile.hpp"
#include "libsim/plan/training_plan.hpp"

namespace stagecraft {

/// Memory of one rank over an iteration. It moves in issue order, so it does not depend on times.
struct RankMemory {
  CategoryBytes at_peak;  ///< at the first instant where the sum (without workspace) is largest
  std::int64_t activation_peak = 0;  ///< largest activations + recomputed + communication
  std::int32_t peak_step = 0;        ///< step of RankPlan::steps that makes the peak
  std::int32_t in_flight_chunks =
      0;  ///< most (microbatch, chunk) pairs between forward and backward
};

/// A memory profile with the sums that a walk needs of it.
struct MemoryMove {
  MemoryProfile profile;
  std::int64_t net_sum = 0;
  std::int64_t net_activation_sum = 0;

  explicit MemoryMove(MemoryProfile const& of)
      : profile{of}, net_sum{of.net.sum()}, net_activation_sum{of.net.activation_sum()} {}
};

/// Follows what a rank holds through its issue order.
class MemoryWalk {
 public:
  explicit MemoryWalk(CategoryBytes const& resident);

  /// Step `step` of the rank moves memory so.
  void move(MemoryMove const& move, std::int32_t step) {
    MemoryProfile const& profile = move.profile;
    if (sum_ + profile.peak > peak_) {
      peak_ = sum_ + profile.peak;
      memory_.at_peak = now_ + profile.at_peak;
      memory_.peak_step = step;
    }
    memory_.activation_peak =
        std::max(memory_.activation_peak, activation_sum_ + profile.activation_peak);
    now_ += profile.net;
    sum_ += move.net_sum;
    activation_sum_ += move.net_activation_sum;
  }
  void begin_chunk() {
    memory_.in_flight_chunks = std::max(memory_.in_flight_chunks, ++in_flight_);
  }
  void end_chunk() { --in_flight_; }

  CategoryBytes const& now() const { return now_; }
  RankMemory const& result() const { return memory_; }

 private:
  RankMemory memory_;
  CategoryBytes now_;
  std::int64_t sum_;
  std::int64_t activation_sum_;
  std::int64_t peak_ = 0;
  std::int32_t in_flight_ = 0;
};

/// What a step does to a rank's memory, messages included: receive buffers exist from their post
/// on, sent tensors until the wait for their send (outputs that are not deallocated: until their
/// backward is over). Where messages are scattered, a receive buffer holds 1/t and is gathered at
/// the wait.
MemoryProfile profile_step_memory(TrainingPlan const& plan,
                                  RankPlan const& rank,
                                  Step const& step,
                                  std::vector<WorkProfile> const& works);

/// What a rank holds at the start of an iteration: parameters, gradients, optimizer state.
CategoryBytes resident_memory(RankPlan const& rank);

RankMemory walk_memory(TrainingPlan const& plan,
                       RankPlan const& rank,
                       std::vector<WorkProfile> const& works);

}  // namespace stagecraft
