#include "libsim/modules/embedding_and_head.hpp"

#include <optional>

#include "libsim/modules/hidden_shapes.hpp"
#include "libsim/modules/label_loss.hpp"
#include "libsim/modules/pointwise.hpp"
#include "libsim/modules/token_prediction.hpp"
#include "libsim/modules/word_embedding.hpp"

namespace stagecraft {
namespace {

/// One row per word of the padded vocabulary, cut over the tensor group.
ParameterTraits word_rows(BlockShape const& shape) {
  ParameterTraits traits =
      cut_by_rows(shape.tensor, {{.rows = shape.vocabulary()}}, shape.model.hidden);
  traits.whole_rows = shape.model.vocabulary;
  return traits;
}

/// The word embedding. The blocks at both ends of the model may have copies of it.
ParameterTraits embedded_words(BlockShape const& shape) {
  ParameterTraits traits = word_rows(shape);
  traits.tied_embedding = embeds_at_end(shape.model);
  return traits;
}

/// The embedding that a module after the layers uses: the head's weight, if that is the embedding;
/// else a copy.
TensorId embedding_behind(ProgramBuilder& builder, TensorId head, HeadWeight weight) {
  BlockShape const& shape = builder.shape();
  if (shape.model.tied_embeddings) return head;
  ParameterTraits copy = embedded_words(shape);
  copy.is_counted = false;
  copy.shared = weight == HeadWeight::shared;
  return builder.parameter({"embedding", "weight"}, {shape.vocabulary(), shape.model.hidden}, copy);
}

}  // namespace

void write_inputs(ProgramBuilder& builder) {
  BlockShape const& shape = builder.shape();
  builder.begin(Pass::forward, "inputs", 0);
  TensorId const mask = builder.make({"inputs", "causal_mask"},
                                     {shape.sequence(), shape.model.sequence}, ElementType::u8);
  Op& make =
      builder.add(OpKind::make_causal_mask, {"inputs", "causal_mask"}, Phase::forward, {}, {mask});
  make.traffic = builder.tensor(mask).bytes();
  builder.begin(Pass::backward, "inputs", 0);
  builder.add(OpKind::hold, {"inputs", "release"}, Phase::input_gradient, {mask}, {}).traffic = {};
}

void write_embedding(ProgramBuilder& builder) {
  BlockShape const& shape = builder.shape();
  ModelConfig const& model = shape.model;
  BlockProgram& program = builder.program();
  Shape const places{position_rows(model), model.hidden};
  WordEmbedding words{.table = builder.parameter({"embedding", "weight"},
                                                 {shape.vocabulary(), model.hidden},
                                                 embedded_words(shape))};
  if (model.positions == Positions::learned) {
    words.positions =
        builder.parameter({"positions", "weight"}, places, replicated(shape.tensor, places));
  }

  builder.begin(Pass::forward, "embedding", 0);
  program.output = embedding_forward(builder, words, 0);

  builder.begin(Pass::backward, "embedding", 0);
  program.grad_output = builder.make({"embedding", "output_gradient"}, local_hidden(shape));
  embedding_backward(builder, words, program.grad_output);
}

void write_head(ProgramBuilder& builder, HeadWeight weight) {
  BlockShape const& shape = builder.shape();
  ModelConfig const& model = shape.model;
  BlockProgram& program = builder.program();
  NormLayer norm = make_norm(builder, "final_norm");
  ParameterTraits words = model.tied_embeddings ? embedded_words(shape) : word_rows(shape);
  words.is_counted = !model.tied_embeddings;
  words.shared = model.tied_embeddings && weight == HeadWeight::shared;
  LabelLoss loss{.vocabulary = {.words = model.vocabulary}};
  loss.logits.weight =
      builder.parameter({"head.logits", "weight"}, {shape.vocabulary(), model.hidden}, words);
  std::optional<TokenPrediction> prediction;
  if (program.prediction_modules > 0) {
    prediction = make_token_prediction(builder, loss.logits.weight,
                                       embedding_behind(builder, loss.logits.weight, weight));
  }

  builder.begin(Pass::forward, "final_norm", 0);
  program.input = builder.make({"final_norm", "input"}, local_hidden(shape));
  loss.input = norm_forward(builder, norm, program.input, {"head.logits", "input"});
  if (prediction) prediction_forward(builder, *prediction, loss.input);
  builder.begin(Pass::forward, "head", 0);
  label_loss_forward(builder, loss, 0);

  builder.begin(Pass::backward, "head", 0);
  TensorId const d_normed = label_loss_backward(builder, loss);
  if (prediction) prediction_backward(builder, *prediction, d_normed);
  builder.begin(Pass::backward, "final_norm", 0);
  program.grad_input = norm_backward(builder, norm, d_normed);
}

}  // namespace stagecraft
