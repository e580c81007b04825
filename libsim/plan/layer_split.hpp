#pragma once

#include <cstdint>
#include <vector>

#include "libsim/plan/training_config.hpp"

namespace stagecraft {

/// Layers of every virtual stage, in model order: entry c * p + r is chunk c of stage r.
///
/// The first and the last virtual stage have no layers if they hold only the embedding or the head.
/// Pre: `config` came from read_training_config() without problems.
std::vector<std::int64_t> layers_of_virtual_stages(TrainingConfig const& config);

}  // namespace stagecraft
