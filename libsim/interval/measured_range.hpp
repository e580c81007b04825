#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "libsim/hardware/compared_runs.hpp"
#include "libsim/hardware/system.hpp"
#include "libsim/training/training_config.hpp"

namespace stagecraft {

/// Whether an accelerator is of a family such as A100, by its name.
bool is_on(std::string_view accelerator, std::string_view family);

using IsMeasuredOn = std::function<bool(ComparedRuns const& runs)>;

/// The settings of a run that lie outside of what some measured runs of models like its (dense, or
/// with experts) had: length of a sequence, GPUs, context parallelism. `where` says of the runs
/// where they were measured. Empty if the run lies among them.
std::vector<std::string> outside_of_measured(TrainingConfig const& config,
                                             std::string const& where,
                                             IsMeasuredOn const& is_measured_on);

/// The settings of a run that no measured run on its accelerator was held against a prediction for,
/// each with what was measured: "model.attention flash (measured on A100: unfused)". Empty if
/// the run lies within what was measured.
///
/// Source: configs/compared.yaml, and the runs of experiments/validation/data and table 5 of
/// Korthikanti et al. 2022.
std::vector<std::string> unmeasured_settings(TrainingConfig const& config, System const& system);

}  // namespace stagecraft
