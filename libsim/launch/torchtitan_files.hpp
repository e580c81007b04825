#pragma once

#include <string>
#include <vector>

#include "libsim/launch/launch_job.hpp"

namespace stagecraft {

/// The files that start a run with torchtitan 0.2.2: job.toml, torchrun.sh and, if torchtitan has
/// no flavor of the model, a module that adds one.
/// Pre: torchtitan_gaps() are empty.
/// Source: torchtitan 0.2.2, config/job_config.py; run_train.sh.
std::vector<LaunchFile> torchtitan_files(LaunchJob const& job);

/// What the job configuration says of layout, batch and recompute, as options of the command line.
std::string torchtitan_layout_flags(TrainingConfig const& config);

}  // namespace stagecraft
