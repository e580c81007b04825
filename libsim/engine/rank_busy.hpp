#pragma once

#include <optional>
#include <vector>

#include "libsim/hardware/system.hpp"
#include "libsim/plan/training_plan.hpp"
#include "libsim/units/units.hpp"

namespace stagecraft {

/// How long ranks of a stage compute in an iteration if their experts compute different numbers of
/// rows: they would be busy for so long if nobody waited for another one. A stage is busy for as
/// long as the rank with the largest load is, layer by layer; the rest its ranks wait for each
/// other. Loads are rows and weights of experts (plan/received_rows), which no system turns into
/// times: of two ranks with nearly the same, the one with less may be busy for longer.
struct RankBusy {
  int hottest = 0;  ///< number in its stage of the rank with the largest load in all layers
  int coldest = 0;  ///< of the one with the smallest, among those that wait for each other
  SimTime of_hottest{0};
  SimTime of_coldest{0};
};

/// One per stage; nullopt if all ranks have the same load in every layer and microbatch.
/// \throws std::invalid_argument  if the system cannot cost the plan.
std::optional<std::vector<RankBusy>> busy_by_rank(TrainingPlan const& plan, System const& system);

}  // namespace stagecraft
