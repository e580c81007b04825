#pragma once

#include "libsim/plan/training_plan.hpp"

namespace stagecraft {

/// Lets the memory of the host have the saved inputs of modules, from their forward to their
/// backward.
///
/// The modules of a layer are groups. A group has what the backward of its module reads, which is
/// copied there and back once for each group that reads it, and stays on the device if others read
/// it as well. Tensors of fewer than 1,048,576 elements stay. A view that covers less than half of
/// its buffer is copied by itself, else the buffer is. Of the last chunk of the model the last
/// group of each module stays, because its backward comes at once; of the groups of a chunk that
/// have tensors, the last part that `fraction` leaves over stays as well. What a checkpoint runs
/// again has no groups.
///
/// A group's tensors are copied while the next layer runs, and go when that ends; those of the last
/// layer of a chunk go when it ends. Behind each group whose backward is over, one of the layer
/// before is allocated, the last one first, so that the device has one layer's. Copies back have
/// the time of a layer's backward. The first layer of a chunk copies those of the last one, of the
/// microbatch that comes before or after, which allocates its own.
///
/// Only the last chunk of the model waits for copies to the host, because its backward follows its
/// forward at once; after others, the host has the time of a pass in between. Blocks wait for what
/// they bring back when they end.
///
/// Not modelled: the groups of the last layer that stay in the first microbatch of the other
/// stages, that `fraction` does not count the groups that stay in the first microbatch of a stage,
/// and that a slow link holds tensors for longer than a layer.
/// Source: Megatron-LM d98e8a64, megatron/core/pipeline_parallel/fine_grained_activation_offload.py.
void offload_modules(TrainingConfig const& config, Programs& programs);

}  // namespace stagecraft
