#pragma once

#include "libsim/model/linear.hpp"
#include "libsim/model/pointwise.hpp"
#include "libsim/model/program_builder.hpp"

namespace stagecraft {

/// A use of the word embedding, with the tensors that forward keeps for backward.
struct WordEmbedding {
  TensorId table = no_tensor;
  TensorId positions = no_tensor;  ///< the table of learned positions
  TensorId tokens = no_tensor;
  TensorId mask = no_tensor;  ///< of the dropout, if masks are stored
};

/// Appends the embedding of tokens `ahead` of those of the microbatch, positions and dropout.
/// Returns the hidden state [s or s/t, b, h].
TensorId embedding_forward(ProgramBuilder& builder, WordEmbedding& words, int ahead);
/// Appends the backward from the gradient of the hidden state.
void embedding_backward(ProgramBuilder& builder, WordEmbedding const& words, TensorId dy);

/// A use of the output projection: logits and their cross entropy with the labels.
struct LabelLoss {
  Linear logits{.owner = "head.logits"};
  VocabularyAttributes vocabulary{};
  TensorId input = no_tensor;  ///< normed hidden state
  TensorId labels = no_tensor;
  TensorId output = no_tensor;         ///< logits, before their cap
  TensorId probabilities = no_tensor;  ///< softmax of the logits
};

/// Appends logits and loss for labels `ahead` of the next tokens.
void label_loss_forward(ProgramBuilder& builder, LabelLoss& loss, int ahead);
/// Appends the backward. Returns the gradient of the input.
TensorId label_loss_backward(ProgramBuilder& builder, LabelLoss const& loss);

/// Appends the embedding of tokens (and learned positions) and its dropout, which the first stage
/// runs before its layers.
///
/// Writes  the hidden state [s or s/t, b, h]; keeps the token ids (8 bytes each) and the dropout mask.
/// Source: Korthikanti et al. 2022, section 4.3; Megatron-LM Embedding and VocabParallelEmbedding.
void write_embedding(ProgramBuilder& builder);

/// Whether the blocks behind the layers have a weight of their own where they use the word
/// embedding, or share that of another block on their rank.
enum class HeadWeight : std::uint8_t { own, shared };

/// Appends the final norm, the output projection onto the vocabulary and the cross entropy, which
/// the last stage runs after its layers; with the modules of multi-token prediction between the
/// norm and the projection (token_prediction.hpp).
///
/// Writes  logits [s, b, v/t], widened to fp32 and turned into the softmax in place; keeps it, the
///         normed hidden state and the norm's input. Every separate kernel of Megatron's unfused
///         vocabulary-parallel cross entropy is counted: 38 bytes per logit forward, 14 backward.
/// Source: Megatron-LM, mpu/cross_entropy.py of May 2022; three small all-reduces over the tensor group.
void write_head(ProgramBuilder& builder, HeadWeight weight);

/// Appends the boolean causal mask [s, s], which Megatron makes per microbatch on every stage.
void write_inputs(ProgramBuilder& builder);

}  // namespace stagecraft
