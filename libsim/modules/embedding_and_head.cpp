#include "libsim/modules/embedding_and_head.hpp"

#include <optional>
#include <vector>

#include "libsim/modules/hidden_shapes.hpp"
#include "libsim/modules/label_loss.hpp"
#include "libsim/modules/linear.hpp"
#include "libsim/modules/pointwise.hpp"
#include "libsim/modules/transformer_layer.hpp"
#include "libsim/modules/word_embedding.hpp"

namespace stagecraft {
namespace {

/// The weight of the losses of all modules of multi-token prediction together, beside the loss of
/// the next tokens.
/// Source: Megatron-LM, arguments.py: --mtp-loss-scaling-factor; DeepSeek-AI 2024, arXiv:2412.19437,
/// equation 25.
constexpr double prediction_loss_weight = 0.1;

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

Shape hidden_state(BlockShape const& shape, std::int64_t rows, std::int64_t width) {
  return {rows, shape.micro, width};
}

/// The columns of all tensor ranks for this rank's rows.
///
/// Source: Megatron-LM gathers the projection's output over the tensor group, and then scatters its
/// rows if layers are sequence parallel.
TensorId gather_columns(ProgramBuilder& builder, std::string_view owner, TensorId part) {
  BlockShape const& shape = builder.shape();
  if (shape.tensor == 1) return part;
  std::int64_t const hidden = shape.model.hidden;
  TensorId const parts =
      builder.make({owner, "gathered_parts"},
                   hidden_state(shape, shape.tensor * shape.sequence(), hidden / shape.tensor),
                   builder.type(), Category::communication);
  builder.collective(OpKind::all_gather, {owner, "all_gather_output"}, Phase::forward, part, parts,
                     parts, Overlap::none);
  TensorId const whole =
      builder.make({owner, "output"}, hidden_state(shape, shape.sequence(), hidden));
  builder.add(OpKind::gather_heads, {owner, "join_parts"}, Phase::forward, {parts}, {whole});
  if (!shape.sequence_parallel) return whole;
  TensorId const rows =
      builder.make({owner, "output_rows"}, hidden_state(shape, shape.local_sequence(), hidden));
  Op& cut = builder.add(OpKind::slice, {owner, "slice"}, Phase::forward, {whole}, {rows});
  cut.traffic = 2 * builder.tensor(rows).bytes();
  return rows;
}

/// This rank's columns of all rows.
TensorId scatter_columns(ProgramBuilder& builder, std::string_view owner, TensorId dy) {
  BlockShape const& shape = builder.shape();
  if (shape.tensor == 1) return dy;
  std::int64_t const hidden = shape.model.hidden;
  TensorId whole = dy;
  if (shape.sequence_parallel) {
    whole =
        builder.make({owner, "gathered_gradient"}, hidden_state(shape, shape.sequence(), hidden),
                     builder.type(), Category::communication);
    builder.collective(OpKind::all_gather, {owner, "all_gather_gradient"}, Phase::input_gradient,
                       dy, whole, whole, Overlap::none);
  }
  std::int64_t const width = hidden / shape.tensor;
  TensorId const parts = builder.make({owner, "gradient_parts"},
                                      hidden_state(shape, shape.tensor * shape.sequence(), width));
  builder.add(OpKind::scatter_heads, {owner, "part_gradient"}, Phase::input_gradient, {whole},
              {parts});
  TensorId const part =
      builder.make({owner, "output_gradient"}, hidden_state(shape, shape.sequence(), width));
  Op& cut =
      builder.add(OpKind::slice, {owner, "slice_gradient"}, Phase::input_gradient, {parts}, {part});
  cut.traffic = 2 * builder.tensor(part).bytes();
  return part;
}

/// Appends one module. Returns its normed hidden state.
TensorId module_forward(ProgramBuilder& builder, PredictionModule& module, int m, TensorId hidden) {
  BlockShape const& shape = builder.shape();
  int const layer = m + 1;
  std::int64_t const width = shape.model.hidden;
  builder.begin(Pass::forward, "prediction_embedding", layer);
  TensorId const rows = embedding_forward(builder, module.words, m + 1);
  builder.begin(Pass::forward, "prediction_projection", layer);
  TensorId const a =
      norm_forward(builder, module.embedding_norm, rows, {"prediction.embedding_norm", "output"});
  TensorId const b =
      norm_forward(builder, module.hidden_norm, hidden, {"prediction.hidden_norm", "output"});
  module.joined = builder.make({"prediction.projection", "input"},
                               hidden_state(shape, shape.local_sequence(), 2 * width));
  builder.add(OpKind::join_columns, {"prediction.projection", "join"}, Phase::forward, {a, b},
              {module.joined});
  TensorId const part = column_parallel_forward(builder, module.projection, module.joined,
                                                {"attention_norm", "input"});
  TensorId const x = gather_columns(builder, module.projection.owner, part);
  TensorId const y = layer_forward(builder, module.layer, layer, x, {"block", "output"});
  builder.begin(Pass::forward, "final_norm", layer);
  return norm_forward(builder, module.final_norm, y, {"head.logits", "input"});
}

/// Appends the backward from the gradient of the module's hidden state. Returns that of the hidden
/// state before it.
TensorId module_backward(ProgramBuilder& builder,
                         PredictionModule const& module,
                         int m,
                         TensorId dy) {
  int const layer = m + 1;
  builder.begin(Pass::backward, "final_norm", layer);
  TensorId const d_output = norm_backward(builder, module.final_norm, dy);
  TensorId const d_layer = layer_backward(builder, module.layer, layer, d_output);
  builder.begin(Pass::backward, "prediction_projection", layer);
  TensorId const d_part = scatter_columns(builder, module.projection.owner, d_layer);
  TensorId const d_joined =
      column_parallel_backward(builder, module.projection, module.joined, d_part);
  BlockShape const& shape = builder.shape();
  Shape const half = hidden_state(shape, shape.local_sequence(), shape.model.hidden);
  TensorId const d_a = builder.make({"prediction.embedding_norm", "output_gradient"}, half);
  TensorId const d_b = builder.make({"prediction.hidden_norm", "output_gradient"}, half);
  builder.add(OpKind::split_columns, {"prediction.projection", "split"}, Phase::input_gradient,
              {d_joined}, {d_a, d_b});
  TensorId const d_hidden = norm_backward(builder, module.hidden_norm, d_b);
  TensorId const d_rows = norm_backward(builder, module.embedding_norm, d_a);
  builder.begin(Pass::backward, "prediction_embedding", layer);
  embedding_backward(builder, module.words, d_rows);
  return d_hidden;
}

/// Adds a module's gradient of a normed hidden state to the gradient that the head's product gave.
/// The op belongs to the head, not to the final norm: a checkpoint of the norm would hold both
/// gradients until its end.
void add_to(ProgramBuilder& builder, int layer, TensorId sum, TensorId part) {
  builder.begin(Pass::backward, "head", layer);
  builder.add(OpKind::add, {"final_norm", "add_output_gradient"}, Phase::input_gradient,
              {sum, part}, {sum});
}

/// Makes the parameters of the modules of the builder's head. `head` and `table` are the weights of
/// the output projection and the word embedding.
TokenPrediction make_token_prediction(ProgramBuilder& builder, TensorId head, TensorId table) {
  TokenPrediction prediction;
  int const modules = builder.program().prediction_modules;
  for (int m = 0; m < modules; ++m) {
    builder.begin(Pass::forward, "prediction_projection", m + 1);
    BlockShape const& shape = builder.shape();
    std::int64_t const hidden = shape.model.hidden;
    PredictionModule& module = prediction.modules.emplace_back();
    module.words.table = table;
    module.embedding_norm = make_norm(builder, "prediction.embedding_norm");
    module.hidden_norm = make_norm(builder, "prediction.hidden_norm");
    module.projection.weight =
        builder.parameter({module.projection.owner, "weight"}, {hidden / shape.tensor, 2 * hidden},
                          cut_by_rows(shape.tensor, {{.rows = hidden / shape.tensor}}, 2 * hidden));
    module.layer = make_transformer_layer(builder);
    module.final_norm = make_norm(builder, "prediction.final_norm");
    module.loss.logits.weight = head;
    module.loss.logits.stays_high = !shape.quantisation.heads_low;
    module.loss.vocabulary = {.words = shape.model.vocabulary,
                              .weight = prediction_loss_weight / modules};
  }
  builder.begin(Pass::forward, "head", 0);
  return prediction;
}

/// Appends all modules, then their losses. `hidden` is the model's normed hidden state.
void prediction_forward(ProgramBuilder& builder, TokenPrediction& prediction, TensorId hidden) {
  int m = 0;
  for (PredictionModule& module : prediction.modules) {
    module.loss.input = module_forward(builder, module, m, hidden);
    hidden = module.loss.input;
    ++m;
  }
  m = 0;
  for (PredictionModule& module : prediction.modules) {
    ++m;
    builder.begin(Pass::forward, "head", m);
    label_loss_forward(builder, module.loss, m);
  }
}

/// Appends the backward of both, and adds the gradient of `hidden` to `gradient`.
void prediction_backward(ProgramBuilder& builder,
                         TokenPrediction const& prediction,
                         TensorId gradient) {
  std::vector<TensorId> gradients(prediction.modules.size());
  int const modules = builder.program().prediction_modules;
  for (int m = modules - 1; m >= 0; --m) {
    auto const index = static_cast<std::size_t>(m);
    builder.begin(Pass::backward, "head", m + 1);
    gradients[index] = label_loss_backward(builder, prediction.modules[index].loss);
  }
  for (int m = modules - 1; m >= 0; --m) {
    auto const index = static_cast<std::size_t>(m);
    TensorId const before =
        module_backward(builder, prediction.modules[index], m, gradients[index]);
    add_to(builder, m, m == 0 ? gradient : gradients[index - 1], before);
  }
}

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
  loss.logits.stays_high = !shape.quantisation.heads_low;
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
