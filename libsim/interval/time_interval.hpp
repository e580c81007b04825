#pragma once

#include <array>
#include <optional>
#include <string>

#include "libsim/hardware/system.hpp"
#include "libsim/interval/residual_regimes.hpp"
#include "libsim/plan/training_config.hpp"

namespace stagecraft {

/// The interval in which a predicted time lies with 80 %, or why there is none.
struct TimeInterval {
  std::optional<std::array<double, 2>> seconds;  ///< low, high
  std::string reason;                            ///< what stands behind it, or why nothing does
  ResidualRegime const* regime = nullptr;        ///< null: none
};

/// The narrowest regime that a run belongs to; null if it is on an accelerator, or in a precision,
/// of which no source was measured, or if the model has experts.
ResidualRegime const* regime_of(TrainingConfig const& config,
                                System const& system,
                                std::vector<ResidualRegime> const& regimes);

/// The interval T exp(bias +- scale x error) of a predicted time T.
/// Source: split conformal prediction of groups of observations, Dunn, Wasserman and Ramdas 2022,
/// "Distribution-free prediction sets for two-layer hierarchical models", arXiv:1809.07441.
TimeInterval time_interval(double seconds,
                           double relative_error,
                           TrainingConfig const& config,
                           System const& system);

/// The probability that the run predicted to take `shorter` seconds is the faster one of two that
/// differ in the plan only. 1/2 if nothing was measured.
double probability_faster(double shorter, double longer, ResidualRegime const* regime);

}  // namespace stagecraft
