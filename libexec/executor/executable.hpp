#pragma once

#include "libsim/plan/training_config.hpp"

namespace stagecraft {

/// Refuses what the simulator predicts and the executor cannot do yet: other dispatchers than
/// all-to-all, routing of which only the hottest rank is known, and main gradients and moments in
/// other types than those of the accumulation.
///
/// \throws ConfigError
void require_executable(TrainingConfig const& config);

}  // namespace stagecraft
