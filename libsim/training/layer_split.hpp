#pragma once

#include <cstdint>
#include <vector>

#include "libsim/training/training_config.hpp"

namespace stagecraft {

/// The chunks that a stage has of each copy of the model. With one copy they are
/// parallel.interleave.
int chunks_of_copy(TrainingConfig const& config);

/// Layers of every virtual stage, in the order of the configuration's placement. If there are two
/// copies of the model, both have the same.
///
/// The first and the last virtual stage have no layers if they hold only the embedding or the head.
/// Pre: `config` came from read_training_config() without problems.
std::vector<std::int64_t> layers_of_virtual_stages(TrainingConfig const& config);

}  // namespace stagecraft
