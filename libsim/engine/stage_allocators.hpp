#pragma once

#include <cstdint>

#include "libsim/engine/verdict.hpp"
#include "libsim/hardware/system.hpp"
#include "libsim/memory/framework_memory.hpp"
#include "libsim/memory/stage_reservation.hpp"
#include "libsim/plan/training_plan.hpp"

namespace stagecraft {

/// What a stage takes of its accelerator's memory, in bytes.
struct ReservedStage {
  StageReservation reservation;
  std::int64_t device = 0;  ///< reserved, and what else holds the accelerator's memory
  std::int64_t margin = 0;  ///< what the accelerator has beyond that; may be negative
  Verdict verdict = Verdict::fits;
};

/// The allocators of a run's ranks: what they reserve on the system's accelerator beside all else
/// that is on it (bytes_outside), for the plan's tensors and what the software stack allocates.
/// Threads may share it.
class StageAllocators {
 public:
  /// Both must outlive the object.
  StageAllocators(TrainingPlan const& plan, System const& system);

  /// What the allocator of a stage can reserve.
  std::int64_t room(StageId stage) const;
  /// What a rank of a stage reserves, by its number in the stage: that of the fullest, if they
  /// differ. `peak`, if given, is filled in.
  ReservedStage reserve(StageId stage, int rank, ReservedPeak* peak = nullptr) const;
  /// Whether such a rank can be served: reserve() finds no other, but takes longer.
  bool fits(StageId stage, int rank) const;

 private:
  TrainingPlan const& plan_;
  System const& system_;
  FrameworkMemory framework_;
};

}  // namespace stagecraft
