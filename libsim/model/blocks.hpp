#pragma once

#include <cstdint>

#include "libsim/model/block_program.hpp"
#include "libsim/model/embedding_and_head.hpp"
#include "libsim/model/recompute_policy.hpp"

namespace stagecraft {

/// The causal mask of a microbatch, held from its forward to the end of its backward.
BlockProgram build_inputs(BlockShape const& shape);
BlockProgram build_embedding(BlockShape const& shape);
/// Transformer layers in a row under one policy: one layer, or a full-recompute group. A block
/// method's stored layers are built with RecomputeGranularity::none. `layers` says of what shape
/// each is; their hidden states are alike.
BlockProgram build_layers(std::vector<BlockShape> layers, RecomputePolicy const& policy);
/// The same for so many layers of one shape.
BlockProgram build_layers(BlockShape const& shape, int layers, RecomputePolicy const& policy);
BlockProgram build_head(BlockShape const& shape, HeadWeight weight);

/// Trained elements of the whole model, without vocabulary padding and copies: the published count.
std::int64_t parameter_count(ModelConfig const& model);

/// Matrix-product work of forward and backward of one sequence through the whole model, nothing
/// recomputed, attention over the full square: 72 L s h^2 (1 + s/(6h) + v/(12hL)) for the paper's
/// models.
/// Source: Korthikanti et al. 2022, equation 7; summed over the op programs here.
std::int64_t model_flops_per_sequence(ModelConfig const& model);

/// The paper's closed form of what one layer keeps a microbatch on one rank (table 2; 2sbh/t for
/// full recompute with sequence parallelism or sharded checkpoints). Pre: has_paper_bytes.
/// Source: Korthikanti et al. 2022, equations 1, 2, 4 and section 5.
Bytes paper_bytes(BlockShape const& shape, RecomputePolicy const& policy);
/// Whether table 2 has a row for this case: the paper's architecture in 16 bits with stored dropout
/// masks, and none, core-attention or layer-by-layer full recompute.
bool has_paper_bytes(BlockShape const& shape, RecomputePolicy const& policy);

}  // namespace stagecraft
