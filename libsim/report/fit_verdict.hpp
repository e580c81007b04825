#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libsim/engine/simulation.hpp"

namespace stagecraft {

/// How sure it is that a run does not die of memory.
struct FitProbability {
  std::vector<std::optional<double>> stages;  ///< that a rank of each stage lives
  std::optional<double> run;  ///< that all stages do, as if they erred apart; nullopt: not known
  std::string reason;         ///< what stands behind it, or why nothing does
};

/// By what measured runs of the same software reserved beyond their predictions.
FitProbability fit_probability_of(Simulation const& simulation,
                                  TrainingConfig const& config,
                                  System const& system);

/// `fits`, `fits with retries` or `does not fit`.
std::string_view text_of(Verdict verdict);

/// The worst verdict of all stages.
Verdict verdict_of(Simulation const& simulation);

}  // namespace stagecraft
