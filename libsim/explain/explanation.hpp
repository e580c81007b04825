#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "libsim/engine/simulation.hpp"
#include "libsim/explain/change_effect.hpp"
#include "libsim/explain/critical_path.hpp"
#include "libsim/explain/peak_explanation.hpp"
#include "libsim/run/run_config.hpp"

namespace stagecraft {

/// Why a run takes what it takes, and what would change that.
struct Explanation {
  TrainingPlan plan;
  Simulation simulation;
  PeakExplanation peak;  ///< of the fullest stage
  CriticalPath path;
  KindTimes busiest;  ///< kinds_of_busiest_stage()
  RunFigures figures;
  std::vector<ChangeEffect> effects;  ///< distinct_effects()
  BestChanges best;
  std::vector<std::string> pointless;  ///< pointless_choices()
};

/// Explains a run. `run`: as it was read, `store_microbatches: auto` not yet settled; `jobs`:
/// threads for the changes.
/// \throws std::invalid_argument  when the system cannot price the plan.
Explanation explain(RunConfig const& run, int jobs);

}  // namespace stagecraft
