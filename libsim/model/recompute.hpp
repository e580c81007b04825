#pragma once

#include "libsim/model/block_program.hpp"
#include "libsim/model/recompute_policy.hpp"

namespace stagecraft {

/// Rewrites a block so that its backward pass rebuilds what the policy does not store.
///
/// full: all forward ops are one checkpoint region. selective: core_attention and mlp are regions
/// of their own, layernorm discards the outputs of both norms. A region's forward ops are cloned,
/// whole and in order, before the first backward op of the region; backward ops of the region read
/// the clones. The clones of the region's outputs and the gradients it receives live until its
/// backward is over, as the frame of torch.utils.checkpoint keeps them. A discarding region's
/// clones are read by every backward op.
/// `shape` is the one that the block was built for. Pre: waits are not inserted yet.
/// Source: Korthikanti et al. 2022, section 5; Megatron-LM tensor_parallel/random.py.
void apply_recompute(BlockProgram& block, RecomputePolicy const& policy, BlockShape const& shape);

}  // namespace stagecraft
