#pragma once

#include <vector>

#include "libsim/import/megatron/megatron_version.hpp"
#include "libsim/launch/launch_job.hpp"

namespace stagecraft {

/// What starts the job with Megatron-LM: a script for torchrun on each node, a script for Slurm,
/// and the flags alone in one line. The current version trains on its mock data unless DATA says
/// otherwise. import_megatron() reads each script back to the same plan.
std::vector<LaunchFile> megatron_files(LaunchJob const& job, MegatronVersion version);

}  // namespace stagecraft
