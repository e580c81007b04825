#pragma once

#include "libsim/plan/training_plan.hpp"
#include "libsim/plan/units/unit_block.hpp"

namespace stagecraft {

/// Makes a sharded unit of every block that has parameters. A rank keeps its part of each, in the
/// type in which they are updated. Blocks are copied for each place and microbatch at which their
/// units differ (unit_passes), so that afterwards each microbatch of a replica has chunk programs.
///
/// A unit gathers its parameters into a flat buffer in the type of activations, and copies them out
/// of it into the buffer that its ops read. Its gradients have buffers of their own, which are
/// copied into the input of a reduce-scatter; the rank's part of the result is its gradient until
/// the next iteration. If only the last microbatch reduces, the others add their gradients up, in
/// the type of the reduction.
///
/// If ranks do not share parameters, each has them whole, and units only reduce.
///
/// Collectives run on the gather stream, in the order in which the host issues them. The reduction
/// of a unit runs beside the backward of the unit before it in the model, which waits for it at its
/// end: the input of one reduction is held at a time. Padding is that of the first axis of each
/// parameter.
/// DeepSpeed's kinds collect gradients in a bucket, to which each goes once it is made, and reduce
/// a copy of it (reduce_scatter_coalesced(), allreduce_bucket()). The rank's part of that is added
/// to its gradients, which are one buffer. A unit larger than the bucket reduces as many times as
/// it fills it; a reduction is counted once here, and does not wait until a bucket is full.
/// Megatron-FSDP's units have one buffer, which ops read, and one into which each gradient goes
/// once it is made; the reduced shard is added to main gradients. The parameters of experts are a
/// part of their own, of the ranks that hold them. The root's stay gathered for all microbatches.
/// It gathers up to 500 million elements ahead and reduces as late; one unit is modelled here.
/// Source: PyTorch 2.15, torch/distributed/fsdp/_fully_shard: _fsdp_param_group.py and
/// _fsdp_collectives.py; DeepSpeed, deepspeed/runtime/zero/{stage_1_and_2,stage3}.py;
/// Megatron-LM d98e8a64, megatron/core/distributed/fsdp/src/megatron_fsdp.
/// Pre: the blocks' passes are not split, and all parameters but those of Megatron-FSDP's experts
/// have the same holders.
void shard_units(TrainingPlan const& plan, Programs& programs);

/// What the units of a plan have in common. Pre: its sharding has units.
UnitTraits unit_traits(TrainingPlan const& plan);

}  // namespace stagecraft
