#pragma once

#include <string>
#include <vector>

#include "libsim/launch/launch_job.hpp"

namespace stagecraft {

/// What starts a job with DeepSpeed: accelerate.sh, the configurations of Accelerate and DeepSpeed,
/// and a training program with the Trainer of transformers. Pre: the job has no deepspeed_gaps().
/// Source: Accelerate 1.15, commands/launch.py; transformers 5.24, trainer.py.
std::vector<LaunchFile> deepspeed_files(LaunchJob const& job);

/// As LaunchFramework::layout_flags, of `accelerate launch`.
std::string deepspeed_layout_flags(TrainingConfig const& config);

}  // namespace stagecraft
