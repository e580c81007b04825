#pragma once

#include <cstdint>

#include "libsim/program/program_builder.hpp"

namespace stagecraft {

/// Appends the embedding of tokens (and learned positions) and its dropout, which the first stage
/// runs before its layers.
///
/// Writes  the hidden state [s or s/t, b, h]; keeps the token ids (8 bytes each) and the dropout mask.
/// Source: Korthikanti et al. 2022, section 4.3; Megatron-LM Embedding and VocabParallelEmbedding.
void write_embedding(ProgramBuilder& builder);

/// The blocks after the layers may use the word embedding. own: they have a weight of their own for
/// it; shared: they share the weight of another block on their rank.
enum class HeadWeight : std::uint8_t { own, shared };

/// Appends the final norm, the output projection onto the vocabulary and the cross entropy, which
/// the last stage runs after its layers; with the modules of multi-token prediction between the
/// norm and the projection (PredictionModule).
///
/// Writes  logits [s, b, v/t], widened to fp32 and turned into the softmax in place; keeps it, the
///         normed hidden state and the norm's input. Every separate kernel of Megatron's unfused
///         vocabulary-parallel cross entropy is counted: 38 bytes per logit forward, 14 backward.
/// Source: Megatron-LM, mpu/cross_entropy.py of May 2022; three small all-reduces over the tensor group.
void write_head(ProgramBuilder& builder, HeadWeight weight);

/// Appends the boolean causal mask [s, s], which Megatron makes per microbatch on every stage.
void write_inputs(ProgramBuilder& builder);

}  // namespace stagecraft
