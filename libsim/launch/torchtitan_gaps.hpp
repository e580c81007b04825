#pragma once

#include <string>
#include <vector>

#include "libsim/training/training_config.hpp"

namespace stagecraft {

/// The settings of a run that a job configuration of torchtitan cannot say, each with what it says
/// instead; empty if it says everything.
/// Source: torchtitan 0.2.2, config/job_config.py and models/llama3, the last release whose
/// configuration is TOML.
std::vector<std::string> torchtitan_gaps(TrainingConfig const& config);

/// Those of the model and of the keys that a search does not choose.
std::vector<std::string> torchtitan_gaps_of_model(TrainingConfig const& config);

/// The N of activation_checkpoint.selective_ac_option that checkpoints as many layers, every N-th,
/// as the policy recomputes; 0 if no N does.
int checkpointed_every(TrainingConfig const& config);

}  // namespace stagecraft
