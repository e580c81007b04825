#pragma once

#include <vector>

#include "libsim/explain/change.hpp"
#include "libsim/hardware/system.hpp"
#include "libsim/training/training_config.hpp"

namespace stagecraft {

/// Every single change that an explanation tries: recompute_changes(), sequence parallelism, half
/// and double microbatch size, each exchange of a factor of two between tensor, pipeline and data
/// parallelism (so that the number of accelerators stays), half and double expert parallelism, the
/// next larger and smaller interleaving, schedules that split the backward, distributed optimizer,
/// overlapped gradients and transfers, masks, attention, output deallocation, balanced routing,
/// other dispatchers and shared experts beside the exchanges of tokens. The list includes changes
/// that are not legal, and policies that the run already has.
std::vector<Change> single_changes(TrainingConfig const& config, System const& system);

}  // namespace stagecraft
