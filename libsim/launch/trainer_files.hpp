#pragma once

#include <string>
#include <vector>

#include "libsim/launch/launch_job.hpp"

namespace stagecraft {

// Files of jobs that the Trainer of transformers runs, and Accelerate starts.

/// What they cannot say of a run's recompute.
std::vector<std::string> trainer_gaps(TrainingConfig const& config);

/// A script that starts train.py with accelerate.yaml beside it.
std::string accelerate_script(LaunchJob const& job);

/// A program that trains the model, a Llama, on random tokens. `checkpoints`: whether the Trainer
/// is what lets layers recompute.
std::string train_py(LaunchJob const& job, bool checkpoints);

}  // namespace stagecraft
