#pragma once

#include <string>
#include <vector>

#include "libsim/hardware/system.hpp"
#include "libsim/plan/training_config.hpp"

namespace stagecraft {

/// The settings of a run of which no measured run was held against a prediction on its accelerator,
/// each with what was measured: "model.attention flash (measured on A100: unfused)". Empty if
/// the run lies within what was measured.
///
/// Source: the runs of experiments/validation/data and table 5 of Korthikanti et al. 2022.
std::vector<std::string> unmeasured_settings(TrainingConfig const& config, System const& system);

}  // namespace stagecraft
