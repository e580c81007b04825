#pragma once

#include <string>
#include <vector>

#include "libsim/plan/training_config.hpp"

namespace stagecraft {

/// The flags of the current Megatron-LM's pretrain_gpt.py for a run, in one line: model, precision,
/// parallelism, schedule, batch, recompute and optimizer. They leave the number of ranks
/// (world_size), data, checkpoints and logging to the launcher.
///
/// import_megatron() reads them back to the same configuration, except what megatron_gaps() lists,
/// memory.reserve, and settings without effect: sequence parallelism on one tensor rank, and
/// scatter_gather if no message is cut.
/// Pre: problems_of(config) is empty.
std::string megatron_flags(TrainingConfig const& config);

/// The settings of a run for which the current Megatron-LM has no flags, each with what its flags
/// say instead; empty if the flags say everything.
std::vector<std::string> megatron_gaps(TrainingConfig const& config);

}  // namespace stagecraft
