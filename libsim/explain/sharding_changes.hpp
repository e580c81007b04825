#pragma once

#include <vector>

#include "libsim/explain/change.hpp"
#include "libsim/hardware/system.hpp"
#include "libsim/training/training_config.hpp"

namespace stagecraft {

/// The other ways in which the replicas of a run may share parameters, gradients and optimizer
/// state: units instead of shards of the optimizer alone, and units that free more or less, or that
/// fewer ranks share. `node`: accelerators per node. Empty if there is one replica.
std::vector<Change> sharding_changes(TrainingConfig const& config, int node);

/// Half and all of the optimizer's state on the host, if the system says what that is and the run
/// may; and what undoes it.
std::vector<Change> offload_changes(TrainingConfig const& config, System const& system);

}  // namespace stagecraft
