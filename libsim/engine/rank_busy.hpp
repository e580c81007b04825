#pragma once

#include <optional>
#include <vector>

#include "libsim/hardware/system.hpp"
#include "libsim/plan/training_plan.hpp"
#include "libsim/units/units.hpp"

namespace stagecraft {

/// The time for which ranks of a stage compute in an iteration, if their experts compute different
/// numbers of rows and no rank waited for another. A stage is busy for as long as its rank with the
/// largest load is, layer by layer; for the rest of that time its other ranks wait. Loads are rows
/// and weights of experts (plan/received_rows), which no system turns into times: of two ranks with
/// nearly the same load, the one with less may be busy for longer.
struct RankBusy {
  int hottest = 0;  ///< number in its stage of the rank with the largest load in all layers
  /// Number of the rank with the smallest load, among those that wait for each other.
  int coldest = 0;
  SimTime of_hottest{0};
  SimTime of_coldest{0};
};

/// One element per stage; nullopt if all ranks have the same load in every layer and microbatch.
/// \throws CostError  if the system cannot cost the plan.
std::optional<std::vector<RankBusy>> busy_by_rank(TrainingPlan const& plan, System const& system);

}  // namespace stagecraft
