#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "libsim/plan/task_memory.hpp"
#include "libsim/plan/training_plan.hpp"

namespace stagecraft {

/// Memory of one rank of a stage over an iteration, without workspace, in bytes. It follows the
/// issue order, so it does not depend on any cost.
struct StageMemory {
  CategoryBytes at_peak;             ///< at the first instant at which the sum is largest
  std::int64_t activation_peak = 0;  ///< largest activations + recomputed + communication
  std::int32_t peak_entry = 0;       ///< entry of the issue order that reaches the peak
  std::int32_t peak_block = 0;       ///< MemoryProfile::peak_block and peak_op of that entry
  std::int32_t peak_op = -1;
  std::int32_t in_flight_chunks =
      0;  ///< most (microbatch, chunk) pairs from forward to the end of backward
};

/// Memory of a rank at the start of an iteration: parameters, gradients and optimizer state.
CategoryBytes resident_memory(StagePlan const& stage);

/// What the entries of a stage's issue order do to memory: the sums of the events that BufferEvents
/// reports one by one, computed once per kind of entry.
class EntryMemories {
 public:
  /// All must outlive the object. `transfers` are those of the stage's program or of its issue
  /// order, whichever the entries come from. Pre: `tasks` and `messages` are of the plan of
  /// `stage`.
  EntryMemories(StagePlan const& stage,
                std::span<Transfer const> transfers,
                TaskMemories& tasks,
                MessageMemories& messages);

  /// The reference is valid as long as `tasks` and `messages` are. Pre: a post or wait has at most
  /// MessageMemories::most transfers.
  MemoryMove const& of(IssueEntry const& entry);

 private:
  std::span<Transfer const> transfers_;
  MessageMemories& messages_;
  std::vector<MemoryMove const*> of_tasks_;
  MemoryMove none_{MemoryProfile{}};
};

/// Follows the memory of a stage through its issue order.
class MemoryReplay {
 public:
  explicit MemoryReplay(CategoryBytes const& resident);

  /// Applies what entry `entry` of the stage does to memory.
  void move(MemoryMove const& move, std::int32_t entry) {
    MemoryProfile const& profile = move.profile;
    if (sum_ + profile.peak > peak_) {
      peak_ = sum_ + profile.peak;
      memory_.at_peak = now_ + profile.at_peak;
      memory_.peak_entry = entry;
      memory_.peak_block = profile.peak_block;
      memory_.peak_op = profile.peak_op;
    }
    memory_.activation_peak =
        std::max(memory_.activation_peak, activation_sum_ + profile.activation_peak);
    if (move.is_level) return;
    now_ += profile.net;
    sum_ += move.net_sum;
    activation_sum_ += move.net_activation_sum;
  }
  void begin_chunk() {
    memory_.in_flight_chunks = std::max(memory_.in_flight_chunks, ++in_flight_);
  }
  void end_chunk() { --in_flight_; }

  /// Applies the sum of all moves since `then`, an earlier state of this object, `times` more
  /// times, without looking for a peak. (Each repetition changes memory by the same amounts, so the
  /// peak is in the first or in the last.)
  void repeat_since(MemoryReplay const& then, int times);

  bool holds_as_much_as(MemoryReplay const& other) const {
    return now_ == other.now_ && in_flight_ == other.in_flight_;
  }

  CategoryBytes const& now() const { return now_; }
  StageMemory const& result() const { return memory_; }

 private:
  StageMemory memory_;
  CategoryBytes now_;
  std::int64_t sum_;
  std::int64_t activation_sum_;
  std::int64_t peak_ = 0;
  std::int32_t in_flight_ = 0;
};

/// The memory of one stage; the same with sums that several stages share; of all stages. What the
/// stages of any plan hold is fullest_memory().
/// \throws std::logic_error  if the ranks of the plan may differ (TrainingPlan::differs_by_rank).
StageMemory peak_memory(TrainingPlan const& plan, StagePlan const& stage);
StageMemory peak_memory(StagePlan const& stage, TaskMemories& tasks, MessageMemories& messages);
std::vector<StageMemory> peak_memory(TrainingPlan const& plan);

}  // namespace stagecraft
