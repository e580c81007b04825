#pragma once

#include "libsim/program/program_builder.hpp"

namespace stagecraft {

/// Appends the load of tokens or labels [s, b] that are `ahead` later than those of the microbatch.
TensorId load_words(ProgramBuilder& builder, OpKind kind, Name name, int ahead);

/// A use of the word embedding, with the tensors that forward keeps for backward.
struct WordEmbedding {
  TensorId table = no_tensor;
  TensorId positions = no_tensor;  ///< the table of learned positions
  TensorId tokens = no_tensor;
  TensorId mask = no_tensor;  ///< mask of the dropout, if masks are stored
};

/// Appends the embedding of tokens that are `ahead` later than those of the microbatch, with
/// positions and dropout. Returns the hidden state [s or s/t, b, h].
TensorId embedding_forward(ProgramBuilder& builder, WordEmbedding& words, int ahead);
/// Appends the backward from the gradient of the hidden state.
void embedding_backward(ProgramBuilder& builder, WordEmbedding const& words, TensorId dy);

}  // namespace stagecraft
