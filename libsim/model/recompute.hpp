#pragma once

#include "libsim/model/block_program.hpp"
#include "libsim/model/recompute_policy.hpp"

namespace stagecraft {

/// Rewrites a block so that its backward pass rebuilds what the policy does not store.
///
/// full: all modules are one checkpoint region. selective: the policy's recompute_regions(). A
/// checkpoint's forward ops are copied, whole and in order, before the first backward op of the
/// region; backward ops of the region read the recomputed copies. Copies of the region's outputs
/// and the gradients it receives live until its backward is over, as the frame of
/// torch.utils.checkpoint keeps them. Copies of discarded outputs are read by every backward op.
/// `shape` is the one that the block was built for. Pre: waits are not inserted yet.
/// \throws std::invalid_argument  for a name that is not of a region.
/// Source: Korthikanti et al. 2022, section 5; Megatron-LM tensor_parallel/random.py.
void apply_recompute(BlockProgram& block, RecomputePolicy const& policy, BlockShape const& shape);

}  // namespace stagecraft
