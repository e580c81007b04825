#pragma once

#include "libsim/training/training_config.hpp"

namespace stagecraft {

/// Refuses what the simulator predicts and the executor cannot do: main gradients and moments in
/// other types than those of the accumulation, kinds of sharding but some, and sharded units of
/// experts or with a table that two of them share.
///
/// \throws ConfigError
void require_executable(TrainingConfig const& config);

/// Refuses what a rank that runs alone cannot do: to receive as many rows as other ranks would send
/// it, if these differ.
///
/// \throws ConfigError
void require_executable_alone(TrainingConfig const& config);

}  // namespace stagecraft
