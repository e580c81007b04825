#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "libsim/engine/simulation.hpp"
#include "libsim/hardware/system.hpp"
#include "libsim/plan/training_plan.hpp"

namespace stagecraft {

/// Free blocks of one size in one of the allocator's pools.
struct FreeSize {
  bool is_small = false;  ///< of the pool for requests up to 1 MiB
  bool is_split = false;  ///< beside blocks in use, so that it cannot be given back to the device
  std::int64_t size = 0;
  std::int64_t blocks = 0;

  std::int64_t bytes() const { return size * blocks; }
};

/// One of the allocator's two pools.
struct PoolUse {
  std::int64_t reserved = 0;
  std::int64_t live = 0;
};

/// What a stage's reserved bytes consist of when they first reach their peak. Bytes;
/// reserved = requested + rounding + fragments + cached.
struct ReservedExplanation {
  std::int32_t stage = 0;
  std::int64_t counted = 0;    ///< the stage's counted peak, perhaps at another instant
  std::int64_t reserved = 0;   ///< 0 if the allocator does not place blocks
  std::int64_t requested = 0;  ///< what live blocks were asked for
  std::int64_t rounding = 0;   ///< what live blocks have beyond that
  std::int64_t fragments = 0;  ///< free blocks with a neighbour in their segment
  std::int64_t cached = 0;     ///< free whole segments
  PoolUse small;
  PoolUse large;
  std::vector<FreeSize> free;  ///< the most bytes first
  std::int64_t request = 0;    ///< for which it grew to this
  std::string tensor;          ///< whose that was; empty: a buffer of the framework
  bool is_in_step = false;     ///< in the optimizer step
};

/// Explains what a stage of a simulated plan reserves beside what else is on the device.
ReservedExplanation explain_reserved(TrainingPlan const& plan,
                                     System const& system,
                                     StageResult const& stage);

}  // namespace stagecraft
