#pragma once

#include <cstdint>
#include <vector>

#include "libsim/plan/rank_programs.hpp"
#include "libsim/program/category_bytes.hpp"

namespace stagecraft {

/// What a stage holds, and what its allocator has reserved from the device for that.
struct ReservedState {
  CategoryBytes held;
  std::int64_t reserved = 0;
};

/// The states of a stage's memory in an iteration: first what is resident, then one per change of a
/// buffer, in issue order.
///
/// The allocator is that of the configuration, on a device without limits; its cache is empty when
/// the iteration begins. It serves the plan's own buffers as the executor allocates them: those of
/// StagePlan::state are one block each. What a framework allocates beside that is in
/// reserve_stage(), not here.
std::vector<ReservedState> reserved_states(StageRank const& rank);

}  // namespace stagecraft
