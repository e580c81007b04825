#pragma once

#include "libsim/model/program_builder.hpp"

namespace stagecraft {

/// Token (and learned position) embedding and its dropout: what the first stage does before its
/// layers.
///
/// Writes  the hidden state [s or s/t, b, h]; keeps the token ids (8 bytes each) and the dropout mask.
/// Source: Korthikanti et al. 2022, section 4.3; Megatron-LM Embedding and VocabParallelEmbedding.
void write_embedding(ProgramBuilder& builder);

/// Whether the head's weight is the word embedding held by another block of the same rank.
enum class HeadWeight : std::uint8_t { own, shared };

/// Final norm, output projection onto the vocabulary and cross entropy: what the last stage does
/// after its layers.
///
/// Writes  logits [s, b, v/t], widened to fp32 and turned into the softmax in place; keeps it, the
///         normed hidden state and the norm's input. Every separate kernel of Megatron's unfused
///         vocabulary-parallel cross entropy is counted: 38 bytes a logit forward, 14 backward.
/// Source: Megatron-LM, mpu/cross_entropy.py of May 2022; three small all-reduces over the tensor group.
void write_head(ProgramBuilder& builder, HeadWeight weight);

/// What Megatron makes a microbatch on every stage: the boolean causal mask [s, s].
void write_inputs(ProgramBuilder& builder);

}  // namespace stagecraft
