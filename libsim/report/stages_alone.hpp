#pragma once

#include <optional>
#include <string>
#include <vector>

#include "libsim/hardware/system.hpp"
#include "libsim/plan/training_plan.hpp"
#include "libsim/report/executed_results.hpp"

namespace stagecraft {

/// Stages of a run whose ranks were executed alone, perhaps with fewer microbatches than it has.
struct StagesAlone {
  TrainingPlan plan;           ///< that was executed
  ExecutedRun const* results;  ///< of it; never null

  /// "stages 0, 4, 7".
  std::string names() const;
  /// Their files, "a.h5, b.h5".
  std::string files() const;
};

/// What was executed of a plan: with its own global batch where that is there, else with the one of
/// which most stages are, and of those the largest. Nothing where no stage was executed.
std::optional<StagesAlone> find_stages_alone(TrainingConfig const& config,
                                             ExecutedResults const& results);

/// Seconds of an iteration of `plan`, composed of what its stages took alone; messages between them
/// cost what the system says.
/// \throws std::invalid_argument  where a stage or a task of it was not executed, or a trace has
///         not whole chunks.
/// \throws TraceFileError
double composed_seconds(TrainingPlan const& plan, System const& system, StagesAlone const& stages);

}  // namespace stagecraft
