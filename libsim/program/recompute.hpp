#pragma once

#include "libsim/model/recompute_policy.hpp"
#include "libsim/program/block_program.hpp"

namespace stagecraft {

/// Rewrites a block so that its backward pass recomputes what the policy does not store.
///
/// full: all modules are one checkpoint region. selective: each region that the policy names. All
/// forward ops of a checkpoint region are copied, in order, before the region's first backward op,
/// and its backward ops read the recomputed copies. Copies of the region's outputs and the
/// gradients that it receives live until its backward is over, as in the frame of
/// torch.utils.checkpoint. With early_stop (false if it is empty) the copies end with the last op
/// whose output these backward ops read. Recomputed copies of discarded outputs are read by every
/// backward op. A policy that recomputes early gets all copies of the block as a pass of its own.
/// Pre: `shape` is the one that the block was built for; waits are not inserted yet.
/// \throws std::invalid_argument  if the policy names a region that does not exist.
/// Source: Korthikanti et al. 2022, section 5; Megatron-LM tensor_parallel/random.py.
void apply_recompute(BlockProgram& block, RecomputePolicy const& policy, BlockShape const& shape);

}  // namespace stagecraft
