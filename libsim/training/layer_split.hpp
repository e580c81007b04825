#pragma once

#include <cstdint>
#include <vector>

#include "libsim/training/training_config.hpp"

namespace stagecraft {

/// How many chunks a stage has of each copy of the model; of one copy, parallel.interleave.
int chunks_of_copy(TrainingConfig const& config);

/// Layers of every virtual stage, in the order of the configuration's placement; of two copies of
/// the model, both have the same.
///
/// The first and the last virtual stage have no layers if they hold only the embedding or the head.
/// Pre: `config` came from read_training_config() without problems.
std::vector<std::int64_t> layers_of_virtual_stages(TrainingConfig const& config);

}  // namespace stagecraft
