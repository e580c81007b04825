#pragma once

#include <cstdint>

#include "libsim/engine/verdict.hpp"
#include "libsim/hardware/system.hpp"
#include "libsim/memory/framework_memory.hpp"
#include "libsim/memory/stage_reservation.hpp"
#include "libsim/plan/training_plan.hpp"

namespace stagecraft {

/// The memory of its accelerator that a stage takes, in bytes.
struct ReservedStage {
  StageReservation reservation;
  std::int64_t device = 0;  ///< reserved memory, and what else holds the accelerator's memory
  std::int64_t margin = 0;  ///< the accelerator's memory beyond `device`; may be negative
  Verdict verdict = Verdict::fits;
};

/// The allocators of a run's ranks. They reserve memory on the system's accelerator beside
/// everything else there (bytes_outside), for the plan's tensors and the software stack's own.
/// Threads may share it.
class StageAllocators {
 public:
  /// Both must outlive the object.
  StageAllocators(TrainingPlan const& plan, System const& system);

  /// The most that the allocator of a stage can reserve.
  std::int64_t room(StageId stage) const;
  /// The reservation of a rank of a stage, given by its number there. If ranks differ, the stage's
  /// is that of the rank that holds most. `peak`, if given, is filled in.
  ReservedStage reserve(StageId stage, int rank, ReservedPeak* peak = nullptr) const;
  /// FrameworkMemory::host_gain, which the times of all of the plan's blocks decide.
  double host_gain() const { return framework_.host_gain; }
  /// Whether the allocator can serve such a rank: the same answer as reserve() gives, in less time.
  bool fits(StageId stage, int rank) const;

 private:
  TrainingPlan const& plan_;
  System const& system_;
  FrameworkMemory framework_;
};

}  // namespace stagecraft
