#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "libsim/explain/change.hpp"
#include "libsim/run/run_config.hpp"
#include "libsim/units/units.hpp"

namespace stagecraft {

/// What simulate says of a run, in short.
struct RunFigures {
  SimTime iteration{0};
  std::int64_t peak = 0;  ///< of the fullest stage
  std::int32_t fullest_stage = 0;
  std::int64_t room = 0;  ///< capacity less reserve and peak; negative: does not fit

  bool fits() const { return room >= 0; }
};

/// A run with one change, simulated.
struct ChangeEffect {
  Change change;
  std::optional<RunFigures> figures;  ///< absent where the change is not legal
  std::string refusal;                ///< then: why, as the configuration's reader says it
  bool is_same_run = false;           ///< the changed run is the run: nothing was changed
  bool is_repetition = false;         ///< it is what an earlier change makes
};

/// What simulate says of a run file. `run`: as it was read, windows of stored microbatches
/// (`store_microbatches: auto`) not yet settled.
RunFigures figures_of(RunConfig const& run);

/// Tries each change on the run and simulates what comes out, on `jobs` threads: each is read as
/// `stagecraft simulate` with these --set would read it. Two runs are the same where their stages
/// do the same: a window of stored microbatches that takes all of them is no recompute.
std::vector<ChangeEffect> simulate_changes(RunConfig const& run,
                                           std::vector<Change> const& changes,
                                           int jobs);

/// Those that change the run, each once; what is not legal stays.
std::vector<ChangeEffect> distinct_effects(std::vector<ChangeEffect> effects);

/// Which single changes help most. Indices into the effects; absent where none helps.
struct BestChanges {
  std::optional<std::size_t> fastest;   ///< shortest iteration that fits, if it is shorter, or if
                                        ///< the run itself does not fit
  std::optional<std::size_t> smallest;  ///< lowest peak, if it is lower, of those that take at
                                        ///< most twice as long
  /// Lowest peak of those that take at most 1 % longer, if it is lower by 1 %.
  std::optional<std::size_t> cheapest;
};

BestChanges best_changes(RunFigures const& run, std::vector<ChangeEffect> const& effects);

}  // namespace stagecraft
