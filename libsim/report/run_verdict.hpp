#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libsim/engine/simulation.hpp"
#include "libsim/hardware/system.hpp"
#include "libsim/interval/fit_probability.hpp"
#include "libsim/interval/time_interval.hpp"
#include "libsim/run/run_config.hpp"

namespace stagecraft {

/// The stages that do not fit, and how much the fullest of them lacks; empty if all fit.
std::string memory_excess(Simulation const& simulation, RunConfig const& run);

/// The 80 % interval of a simulated iteration.
TimeInterval interval_of(Simulation const& simulation,
                         TrainingConfig const& config,
                         System const& system);

/// Sets `iteration_interval_seconds`, [low, high] or null, and `iteration_interval_reason`, what
/// stands behind it or why nothing does.
void put_interval(nlohmann::ordered_json& json, TimeInterval const& interval);

/// `80 % interval 12.7 to 14.9 s (from ...)`, or why there is none; without the end of a line.
std::string interval_text(TimeInterval const& interval);

/// A line that names the settings for which no prediction was held against a measured run; empty if
/// there are none. See unmeasured_settings().
std::string unmeasured_text(std::vector<std::string> const& settings);

/// How sure it is that a run does not die of memory.
struct FitProbability {
  std::vector<std::optional<double>> stages;  ///< the probability that a rank of each stage lives
  std::optional<double> run;  ///< that all stages live, as if they erred apart; nullopt: not known
  std::string reason;         ///< what stands behind it, or why nothing does
};

/// Follows from what measured runs of the same software reserved beyond their predictions.
FitProbability fit_probability_of(Simulation const& simulation,
                                  TrainingConfig const& config,
                                  System const& system);

/// The same for a given distribution of the measured over the predicted bytes.
FitProbability fit_probability_of(Simulation const& simulation, MemoryRegime const& regime);

/// `fits`, `fits with retries` or `does not fit`.
std::string_view text_of(Verdict verdict);

/// The worst verdict of all stages.
Verdict verdict_of(Simulation const& simulation);

}  // namespace stagecraft
