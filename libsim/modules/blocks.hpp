#pragma once

#include <cstdint>
#include <vector>

#include "libsim/model/recompute_policy.hpp"
#include "libsim/modules/embedding_and_head.hpp"
#include "libsim/program/block_program.hpp"

namespace stagecraft {

/// Builds the causal mask of a microbatch, which lives from its forward to the end of its backward.
BlockProgram build_inputs(BlockShape const& shape);
BlockProgram build_embedding(BlockShape const& shape);
/// Builds consecutive Transformer layers under one policy: one layer, or a full-recompute group.
/// The stored layers of the block method are built with RecomputeGranularity::none.
/// Pre: the layers' shapes agree in the hidden state.
BlockProgram build_layers(std::vector<BlockShape> layers, RecomputePolicy const& policy);
/// The same for a number of layers of one shape.
BlockProgram build_layers(BlockShape const& shape, int layers, RecomputePolicy const& policy);
/// The parameters of one layer, as a block without ops.
BlockProgram declare_layer(BlockShape const& shape);
/// The shapes of the block after the layers: the head's, then those of the layers of multi-token
/// prediction.
std::vector<BlockShape> head_shapes(BlockShape const& shape);
/// Builds the block after the layers: the head, and before it the modules of multi-token
/// prediction, if there are any. The policy is that of the modules' layers; a full policy
/// recomputes each of them alone.
BlockProgram build_head(BlockShape const& shape,
                        HeadWeight weight,
                        RecomputePolicy const& policy = {});
/// The same for given head_shapes(), in which layers of prediction may have room of their own.
BlockProgram build_head(std::vector<BlockShape> shapes,
                        HeadWeight weight,
                        RecomputePolicy const& policy);

/// The published count of parameters: trained elements of the whole model, without vocabulary
/// padding and copies.
std::int64_t parameter_count(ModelConfig const& model);

/// The part of parameter_count() that a token uses: of the routed experts of a layer, the share
/// that it chooses. The input embedding is included.
std::int64_t active_parameter_count(ModelConfig const& model);

/// FLOPs of the matrix products of one sequence's forward and backward through the whole model,
/// without recompute and with attention over the full square: 72 L s h^2 (1 + s/(6h) + v/(12hL))
/// for the paper's models.
/// Source: Korthikanti et al. 2022, equation 7; summed over the op programs here.
std::int64_t model_flops_per_sequence(ModelConfig const& model);

/// The part of model_flops_per_sequence() of the two products of attention, scores and context: 12
/// L s^2 h for the paper's models.
std::int64_t attention_flops_per_sequence(ModelConfig const& model);

/// The paper's closed form of the bytes that one layer keeps per microbatch on one rank (table 2;
/// 2sbh/t for full recompute with sequence parallelism or sharded checkpoints). Pre:
/// has_paper_bytes.
/// Source: Korthikanti et al. 2022, equations 1, 2, 4 and section 5.
Bytes paper_bytes(BlockShape const& shape, RecomputePolicy const& policy);
/// Whether table 2 has a row for this case: the paper's architecture in 16 bits with stored dropout
/// masks, and none, core-attention or layer-by-layer full recompute.
bool has_paper_bytes(BlockShape const& shape, RecomputePolicy const& policy);

}  // namespace stagecraft
