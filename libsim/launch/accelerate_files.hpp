#pragma once

#include <string>
#include <vector>

#include "libsim/launch/launch_job.hpp"

namespace stagecraft {

/// What starts a job with PyTorch's FSDP by Accelerate: a configuration of Accelerate, a training
/// program and a script. Pre: the run has no accelerate_gaps() but those of its vocabulary.
/// Source: accelerate/commands/config/config_args.py and
/// accelerate/utils/dataclasses.py, FullyShardedDataParallelPlugin.
std::vector<LaunchFile> accelerate_files(LaunchJob const& job);

/// "--use_fsdp --fsdp_version 1 --fsdp_sharding_strategy FULL_SHARD": options of `accelerate
/// launch` that a search decides.
std::string accelerate_layout_flags(TrainingConfig const& config);

/// LaunchFramework::gaps of Accelerate with FSDP.
std::vector<std::string> accelerate_gaps(TrainingConfig const& config, int node);
std::vector<std::string> accelerate_gaps_of_model(TrainingConfig const& config);

}  // namespace stagecraft
