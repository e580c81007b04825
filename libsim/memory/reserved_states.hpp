#pragma once

#include <cstdint>
#include <vector>

#include "libsim/plan/rank_programs.hpp"
#include "libsim/program/category_bytes.hpp"

namespace stagecraft {

/// The memory that a stage holds, and the memory that its allocator has reserved for it.
struct ReservedState {
  CategoryBytes held;
  std::int64_t reserved = 0;
};

/// The states of a stage's memory in an iteration, in issue order: the resident buffers, then one
/// state per change of a buffer.
///
/// The allocator is that of the configuration, on a device without limits. Its cache is empty when
/// the iteration begins. It serves the plan's own buffers as the executor allocates them: each
/// buffer of StagePlan::state is one block. Only reserve_stage() has what a framework allocates
/// beside them.
std::vector<ReservedState> reserved_states(StageRank const& rank);

}  // namespace stagecraft
