#pragma once

#include <span>

#include "libsim/plan/training_plan.hpp"
#include "libsim/schedule/schedule_shape.hpp"

namespace stagecraft {

/// A plan without its issue orders: it has blocks, chunks and the state of each stage. Tasks,
/// programs and transfers are empty.
TrainingPlan make_programs(TrainingConfig const& config);
/// The same for a known schedule: the placement of its chunks, and whether some backward is split.
TrainingPlan make_programs(TrainingConfig const& config, Placement const& placement, bool is_split);
/// The same chunks, with room for the rows that these ranks of each stage receive. Ranks are given
/// by their numbers in the stage.
Programs programs_of_ranks(TrainingPlan const& plan, std::span<int const> ranks);

/// Whether two stages run the same blocks, chunk by chunk.
bool have_equal_chunks(TrainingPlan const& plan, StagePlan const& a, StagePlan const& b);

}  // namespace stagecraft
