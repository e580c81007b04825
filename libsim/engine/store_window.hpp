#pragma once

#include "libsim/hardware/system.hpp"
#include "libsim/training/training_config.hpp"

namespace stagecraft {

/// Whether some stage stores as many microbatches as fit (`store_microbatches: auto`).
bool has_automatic_window(TrainingConfig const& config);

/// Replaces `store_microbatches: auto` by numbers, stage by stage.
///
/// A stage's window is the largest number of forwards that it has outstanding. Of these it stores
/// all activations of as many as fit beside the checkpoints of the others: the largest number for
/// which the memory of each of the stage's ranks, followed move by move through its issue order,
/// stays within the system's capacity less `memory.reserve`. It is 0 if even that does not fit, and
/// the whole window if nothing needs to be recomputed. A plan does not know its system, so it is
/// made from the result.
/// Pre: `config` was checked by its reader.
/// Source: Korthikanti et al. 2022, appendix C.
TrainingConfig resolve_store_windows(TrainingConfig config, System const& system);

}  // namespace stagecraft
