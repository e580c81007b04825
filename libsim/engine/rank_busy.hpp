#pragma once

#include <optional>
#include <vector>

#include "libsim/hardware/system.hpp"
#include "libsim/plan/training_plan.hpp"
#include "libsim/units/units.hpp"

namespace stagecraft {

/// How long ranks of a stage compute in an iteration if their experts compute different numbers of
/// rows: they would be busy for so long if nobody waited for another one. A stage is busy for as
/// long as the rank with most rows is, layer by layer; the rest its ranks wait for each other. That
/// more rows take longer is taken for granted: a rank with fewer rows of many more experts may be
/// busy for longer, as it reads more weights.
struct RankBusy {
  int hottest = 0;  ///< number in its stage of the rank that computes most rows in all layers
  int coldest = 0;  ///< of the one that computes fewest, among those that wait for each other
  SimTime of_hottest{0};
  SimTime of_coldest{0};
};

/// One per stage; nullopt if all ranks compute equally many rows in every layer and microbatch.
/// \throws std::invalid_argument  if the system cannot cost the plan.
std::optional<std::vector<RankBusy>> busy_by_rank(TrainingPlan const& plan, System const& system);

}  // namespace stagecraft
