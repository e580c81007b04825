#pragma once

#include <string>
#include <vector>

#include "libsim/training/training_config.hpp"

namespace stagecraft {

/// As LaunchFramework::gaps, of the Trainer of transformers with DeepSpeed.
std::vector<std::string> deepspeed_gaps(TrainingConfig const& config);

/// As LaunchFramework::gaps_of_model.
std::vector<std::string> deepspeed_gaps_of_model(TrainingConfig const& config);

}  // namespace stagecraft
