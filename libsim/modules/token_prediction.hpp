#pragma once

#include <vector>

#include "libsim/modules/label_loss.hpp"
#include "libsim/modules/linear.hpp"
#include "libsim/modules/pointwise.hpp"
#include "libsim/modules/transformer_layer.hpp"
#include "libsim/modules/word_embedding.hpp"

namespace stagecraft {

/// The weight of the losses of all modules of multi-token prediction together, beside the loss of
/// the next tokens.
/// Source: Megatron-LM, arguments.py: --mtp-loss-scaling-factor; DeepSeek-AI 2024, arXiv:2412.19437,
/// equation 25.
inline constexpr double prediction_loss_weight = 0.1;

/// Module m of multi-token prediction, counted from 0. For each token, it predicts the one m + 2
/// later, from the hidden state of module m - 1 (the model's for m = 0) and the embedding of the
/// token m + 1 later.
///
///   x = projection [norm(embedding) | norm(hidden)];  y = final_norm(layer(x));  loss(y, labels)
///
/// The layer has the kind of the model's last layer. Embedding and output projection are those of
/// the model. The next module reads the hidden state y. Labels and embedded tokens at the end of a
/// sequence are those that follow it in the data; Megatron-LM leaves these positions out.
/// Source: Megatron-LM, megatron/core/transformer/multi_token_prediction.py.
struct PredictionModule {
  WordEmbedding words;
  NormLayer embedding_norm;
  NormLayer hidden_norm;
  Linear projection{.owner = "prediction.projection"};  ///< [h, 2h], column parallel
  TransformerLayer layer;
  NormLayer final_norm;
  LabelLoss loss;
  TensorId joined = no_tensor;  ///< [s or s/t, b, 2h]: input of the projection
};

/// All modules of a model, in order.
struct TokenPrediction {
  std::vector<PredictionModule> modules;
};

/// Makes the parameters of the modules of the builder's head. `head` and `table` are the weights of
/// the output projection and the word embedding.
TokenPrediction make_token_prediction(ProgramBuilder& builder, TensorId head, TensorId table);

/// Appends all modules, then their losses. `hidden` is the model's normed hidden state.
void prediction_forward(ProgramBuilder& builder, TokenPrediction& prediction, TensorId hidden);
/// Appends the backward of both, and adds the gradient of `hidden` to `gradient`.
void prediction_backward(ProgramBuilder& builder,
                         TokenPrediction const& prediction,
                         TensorId gradient);

}  // namespace stagecraft
