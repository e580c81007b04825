#pragma once

#include <optional>
#include <string>
#include <vector>

#include "libsim/hardware/system.hpp"
#include "libsim/plan/training_plan.hpp"
#include "libsim/report/paper/executed_results.hpp"

namespace stagecraft {

/// Stages of a run whose ranks were executed alone, perhaps with fewer microbatches than the run
/// has.
struct StagesAlone {
  TrainingPlan plan;           ///< the plan that was executed
  ExecutedRun const* results;  ///< its results; never null

  /// "stages 0, 4, 7".
  std::string names() const;
  /// Their files, "a.h5, b.h5".
  std::string files() const;
};

/// What was executed of a plan: with its own global batch if there are results of it, else with the
/// one that has most stages, and of those the largest. Returns nullopt if no stage was executed.
std::optional<StagesAlone> find_stages_alone(TrainingConfig const& config,
                                             ExecutedResults const& results);

/// The seconds of an iteration of `plan`, composed of the times that its stages took alone;
/// messages between them take the time that the cost model gives.
/// \throws std::invalid_argument  if a stage or one of its tasks was not executed, or a trace does
///         not have whole chunks.
/// \throws TraceFileError
double composed_seconds(TrainingPlan const& plan, System const& system, StagesAlone const& stages);

}  // namespace stagecraft
