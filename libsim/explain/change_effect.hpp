#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "libsim/engine/verdict.hpp"
#include "libsim/explain/change.hpp"
#include "libsim/run/run_config.hpp"
#include "libsim/units/units.hpp"

namespace stagecraft {

/// Told how many runs of how many have been simulated; by one thread at a time.
using TrialProgress = std::function<void(std::size_t done, std::size_t all)>;

/// The main results of simulating a run.
struct RunFigures {
  SimTime iteration{0};
  std::int64_t peak = 0;  ///< of the fullest stage, bytes
  std::int32_t fullest_stage = 0;
  /// What the device has beyond what it holds, bytes; negative if the run does not fit. By the
  /// allocator: the least margin of a stage; else capacity less reserve and peak, or, if the
  /// replay of the fullest stage runs out, its margin.
  std::int64_t room = 0;
  /// Bytes, by the allocator of the stage that reserves most; of the fullest one if the verdict is
  /// by counted bytes.
  std::int64_t reserved = 0;
  Verdict verdict = Verdict::fits;
  bool is_by_allocator = false;  ///< see decides_by_allocator()
  bool runs_out = false;         ///< counted bytes fit, and the replay of the tensors runs out

  bool fits() const { return room >= 0; }
};

/// A change and the results of the changed run.
struct ChangeEffect {
  Change change;
  std::optional<RunFigures> figures;  ///< absent if the change is not legal
  std::string refusal;                ///< then: why, in the words of the configuration's reader
  bool is_same_run = false;           ///< the changed run equals the run
  bool is_repetition = false;         ///< the changed run equals that of an earlier change
};

/// Simulates a run as it was read: `store_microbatches: auto` is not resolved yet.
RunFigures figures_of(RunConfig const& run);

/// Applies each change to the run and simulates the changed run, on `jobs` threads. Changes are
/// read as `stagecraft simulate` reads the same --set options. Two runs are the same if their
/// stages do the same: a window that stores all microbatches is the same as no recompute.
std::vector<ChangeEffect> simulate_changes(
    RunConfig const& run,
    std::vector<Change> const& changes,
    int jobs,
    TrialProgress const& progress = [](std::size_t, std::size_t) {});

/// Removes changes that do not change the run and all but the first of equal ones. Changes that are
/// not legal stay.
std::vector<ChangeEffect> distinct_effects(std::vector<ChangeEffect> effects);

/// The single changes that help most, as indices into the effects; absent if none helps.
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
