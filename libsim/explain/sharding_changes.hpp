#pragma once

#include <vector>

#include "libsim/explain/change.hpp"
#include "libsim/hardware/system.hpp"
#include "libsim/training/training_config.hpp"

namespace stagecraft {

/// The kinds of sharding that the framework of a run with `kind` has: those of its software stack,
/// unless these lack `kind`, which is another framework's then. `none` is among those of a stack
/// only.
std::vector<ShardingKind> kinds_of_framework(ShardingKind kind, Software const& software);

/// The other ways in which the replicas of a run may share parameters, gradients and optimizer
/// state, as far as its framework has them: units instead of shards of the optimizer alone, and
/// units that free more or less, or that fewer ranks share. Empty if there is one replica.
std::vector<Change> sharding_changes(TrainingConfig const& config, System const& system);

/// Half and all of the optimizer's state on the host, if the system says what that is and the run
/// may; and what undoes it.
std::vector<Change> offload_changes(TrainingConfig const& config, System const& system);

}  // namespace stagecraft
