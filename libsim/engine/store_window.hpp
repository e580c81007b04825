#pragma once

#include "libsim/hardware/system.hpp"
#include "libsim/training/training_config.hpp"

namespace stagecraft {

/// Whether some stage stores as many microbatches as fit (`store_microbatches: auto`).
bool has_automatic_window(TrainingConfig const& config);

/// Puts numbers in the place of `store_microbatches: auto`, stage by stage.
///
/// Of the forwards that a stage has outstanding at most (its window), it stores all activations of
/// as many as fit beside the checkpoints of the others: the largest number with which the stage's
/// memory (of each of its ranks), followed move by move through its issue order, stays within the
/// system's capacity less `memory.reserve`. 0 where even that does not fit; the whole window where
/// nothing needs to be recomputed. A plan does not know its system, so it is made of the result.
/// Pre: `config` was checked by its reader.
/// Source: Korthikanti et al. 2022, appendix C.
TrainingConfig resolve_store_windows(TrainingConfig config, System const& system);

}  // namespace stagecraft
