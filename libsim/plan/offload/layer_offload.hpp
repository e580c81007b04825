#pragma once

#include "libsim/plan/training_plan.hpp"

namespace stagecraft {

/// Lets the memory of the host have what the first N of L layers save, from their forward to their
/// backward.
///
/// Layer i + 1 begins to copy what layer i has saved. The buffers go when layer L - N + i begins,
/// which waits for the copies; the backward of layer L - 1 - N + i allocates them again, and copies
/// them back until that of layer i begins. So what no more than L - N layers
/// save is on the device. Tensors
/// of fewer than 262,144 elements stay.
///
/// Copies follow each other on one stream over the layers between the first and the last. With
/// equal layers they end as if each of these layers moved an equal part, which is what the programs
/// say: every block waits for its own part. With N = L - 1 each copy is waited for at once.
/// Pre: one stage, whose microbatches follow each other; no layer is recomputed.
/// Source: Transformer Engine d0067d0d, transformer_engine/pytorch/cpu_offload.py,
/// DefaultOffloadSynchronizer.
void offload_layers(TrainingConfig const& config, Programs& programs);

}  // namespace stagecraft
