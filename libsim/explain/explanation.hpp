#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libsim/cost/cost_model.hpp"
#include "libsim/engine/simulation.hpp"
#include "libsim/explain/change_effect.hpp"
#include "libsim/explain/critical_path.hpp"
#include "libsim/explain/memory_explanation.hpp"
#include "libsim/plan/training_plan.hpp"
#include "libsim/run/run_config.hpp"

namespace stagecraft {

/// For how long passes of one kind of block wait for collectives of sharded units in an iteration.
struct ExposedUnits {
  Pass pass = Pass::forward;
  BlockProgram::Kind block = BlockProgram::Kind::layers;  ///< that waits
  bool is_gather = true;                                  ///< else a reduction
  SimTime seconds{0};                                     ///< of all microbatches of a replica
};

/// "embedding", "layers", "head"
constexpr std::string_view name_of_block(BlockProgram::Kind kind) {
  return kind == BlockProgram::Kind::head        ? "head"
         : kind == BlockProgram::Kind::embedding ? "embedding"
                                                 : "layers";
}

/// Why a run takes the time and memory that it takes, and what each single change would do.
///
/// This folder finds the tensors that fill the fullest stage (memory_explanation.hpp), the chain of
/// tasks that determines the iteration's time (critical_path.hpp), and the effect of each change
/// (change_effect.hpp), and writes them as text or JSON.
struct Explanation {
  TrainingPlan plan;
  Simulation simulation;
  PeakExplanation peak;          ///< of the fullest stage
  ReservedExplanation reserved;  ///< of the stage with the least margin
  CriticalPath path;
  KindTimes busiest;  ///< kinds_of_busiest_stage()
  std::vector<ExposedUnits> exposed;
  RunFigures figures;
  std::vector<ChangeEffect> effects;  ///< distinct_effects()
  BestChanges best;
  std::optional<std::vector<ChangeEffect>> pairs;  ///< simulate_pairs(), if they were asked for
  BestChanges best_pairs;                          ///< as indices into the pairs
  std::vector<std::string> pointless;              ///< pointless_choices()
};

/// How a run is explained.
struct ExplainOptions {
  int jobs = 1;            ///< threads that simulate changes
  bool has_pairs = false;  ///< simulate_pairs(), too
  TrialProgress progress = [](std::size_t, std::size_t) {};
};

/// Explains a run as it was read: `store_microbatches: auto` is not resolved yet.
/// \throws std::invalid_argument  if the system lacks a cost that the plan needs.
Explanation explain(RunConfig const& run, ExplainOptions const& options);

}  // namespace stagecraft
