#include "libsim/model/embedding_and_head.hpp"

#include <optional>

#include "libsim/model/token_prediction.hpp"

namespace stagecraft {
namespace {

Shape whole_hidden(BlockShape const& shape) {
  return {shape.sequence(), shape.micro, shape.model.hidden};
}
Shape local_hidden(BlockShape const& shape) {
  return {shape.local_sequence(), shape.micro, shape.model.hidden};
}

TensorId load(ProgramBuilder& builder, OpKind kind, Name name, int ahead) {
  BlockShape const& shape = builder.shape();
  TensorId const tokens = builder.make(name, {shape.sequence(), shape.micro}, ElementType::i64);
  builder.add(kind, name, Phase::forward, {}, {tokens}, TokensAttributes{ahead});
  return tokens;
}

/// One row per word of the padded vocabulary, cut over the tensor group.
ParameterTraits word_rows(BlockShape const& shape) {
  ParameterTraits traits =
      cut_by_rows(shape.tensor, {{.rows = shape.vocabulary()}}, shape.model.hidden);
  traits.whole_rows = shape.model.vocabulary;
  return traits;
}

/// The word embedding, of which the blocks at both ends of the model may have copies.
ParameterTraits embedded_words(BlockShape const& shape) {
  ParameterTraits traits = word_rows(shape);
  traits.tied_embedding = embeds_at_end(shape.model);
  return traits;
}

/// Bytes of the rows of a table of positions (or of its gradient) that no token of s reads.
Bytes unused_positions(ProgramBuilder const& builder, TensorId table) {
  Tensor const& tensor = builder.tensor(table);
  return Bytes{(tensor.shape[0] - builder.shape().sequence()) * tensor.shape[1] *
               element_size(tensor.type)};
}

/// Returns the rows looked up, summed over the vocabulary shards, with positions added:
/// [s or s/t, b, h].
TensorId look_up(ProgramBuilder& builder, TensorId tokens, TensorId table, TensorId positions) {
  BlockShape const& shape = builder.shape();
  TensorId const rows = builder.make({"embedding", "rows"}, whole_hidden(shape));
  Op& lookup = builder.add(OpKind::embedding, {"embedding", "lookup"}, Phase::forward,
                           {tokens, table}, {rows});
  lookup.traffic = 2 * builder.tensor(rows).bytes();  // only the rows looked up are read
  bool const scatters_directly = shape.sequence_parallel && positions == no_tensor;
  if (scatters_directly) {
    TensorId const shard = builder.make({"embedding", "rows_shard"}, local_hidden(shape));
    builder.collective(OpKind::reduce_scatter, {"embedding", "reduce_scatter"}, Phase::forward,
                       rows, shard, rows, Overlap::none);
    return shard;
  }
  builder.collective(OpKind::all_reduce, {"embedding", "all_reduce"}, Phase::forward, rows, rows,
                     rows, Overlap::none);
  if (positions != no_tensor) {
    Op& add = builder.add(OpKind::add_positions, {"embedding", "add_positions"}, Phase::forward,
                          {rows, positions}, {rows});
    add.traffic -= unused_positions(builder, positions);
  }
  if (!shape.sequence_parallel) return rows;
  TensorId const shard = builder.make({"embedding", "rows_shard"}, local_hidden(shape));
  Op& cut = builder.add(OpKind::slice, {"embedding", "slice"}, Phase::forward, {rows}, {shard});
  cut.traffic = 2 * builder.tensor(shard).bytes();
  return shard;
}

void rows_backward(ProgramBuilder& builder, WordEmbedding const& words, TensorId dy) {
  BlockShape const& shape = builder.shape();
  TensorId whole = dy;
  if (shape.sequence_parallel) {
    whole = builder.make({"embedding", "gathered_gradient"}, whole_hidden(shape), builder.type(),
                         Category::communication);
    builder.collective(OpKind::all_gather, {"embedding", "all_gather_gradient"},
                       Phase::input_gradient, dy, whole, whole, Overlap::none);
  }
  TensorId const gradient = builder.gradient_of(words.table);
  Op& scatter = builder.add(OpKind::embedding_backward, {"embedding", "weight_gradient"},
                            Phase::weight_gradient, {whole, words.tokens}, {gradient});
  // Every row of dy is read; on average 1/t of them are added to this rank's rows of the gradient.
  std::int64_t const elements = builder.tensor(whole).shape.elements();
  scatter.traffic =
      builder.tensor(whole).bytes() +
      Bytes{2 * elements / shape.tensor * element_size(builder.tensor(gradient).type)};
  if (words.positions != no_tensor) {
    Op& sum = builder.add(OpKind::positions_gradient, {"positions", "weight_gradient"},
                          Phase::weight_gradient, {whole}, {builder.gradient_of(words.positions)});
    sum.traffic -= unused_positions(builder, builder.gradient_of(words.positions));
  }
}

/// Appends the cross entropy over the vocabulary shards. Returns the softmax, in the logits'
/// buffer.
TensorId loss_forward(ProgramBuilder& builder,
                      VocabularyAttributes const& vocabulary,
                      TensorId logits,
                      TensorId labels) {
  BlockShape const& shape = builder.shape();
  ElementType const wide = accumulation_type(shape.model.precision);
  Shape const row{shape.sequence(), shape.micro};
  TensorId probabilities = logits;
  if (builder.type() != wide) {
    probabilities = builder.make({"loss", "softmax"}, builder.tensor(logits).shape, wide);
    builder.add(OpKind::widen_logits, {"loss", "widen"}, Phase::forward, {logits}, {probabilities});
  }
  auto const reduce = [&](Name name, TensorId rows, Reduction reduction) {
    Op* const op = builder.collective(OpKind::all_reduce, name, Phase::forward, rows, rows, rows,
                                      Overlap::none);
    if (op != nullptr) op->reduction = reduction;
  };
  TensorId const maximum = builder.make({"loss", "maximum"}, row, wide);
  builder.add(OpKind::logits_maximum, {"loss", "maximum"}, Phase::forward, {probabilities},
              {maximum}, vocabulary);
  reduce({"loss", "all_reduce_maximum"}, maximum, Reduction::maximum);
  TensorId const sum = builder.make({"loss", "sum"}, row, wide);
  TensorId const predicted = builder.make({"loss", "predicted"}, row, wide);
  Op& exponentials =
      builder.add(OpKind::exponentials, {"loss", "exponentials"}, Phase::forward,
                  {probabilities, maximum, labels}, {probabilities, sum, predicted}, vocabulary);
  // Subtract (read, write), exponential (read, write), sum (read).
  exponentials.traffic = 5 * builder.tensor(probabilities).bytes();
  reduce({"loss", "all_reduce_predicted"}, predicted, Reduction::sum);
  reduce({"loss", "all_reduce_sum"}, sum, Reduction::sum);
  TensorId const loss = builder.make({"loss", "loss"}, row, wide);
  builder.add(OpKind::cross_entropy, {"loss", "cross_entropy"}, Phase::forward,
              {probabilities, sum, predicted, labels}, {probabilities, loss}, vocabulary);
  return probabilities;
}

TensorId loss_backward(ProgramBuilder& builder, LabelLoss const& loss) {
  TensorId const probabilities = loss.probabilities;
  builder.add(OpKind::cross_entropy_backward, {"loss", "cross_entropy_backward"},
              Phase::input_gradient, {probabilities, loss.labels}, {probabilities},
              loss.vocabulary);
  if (builder.tensor(probabilities).type == builder.type()) return probabilities;
  TensorId const d_logits =
      builder.make({"head.logits", "output_gradient"}, builder.tensor(probabilities).shape);
  builder.add(OpKind::narrow_logits, {"loss", "narrow"}, Phase::input_gradient, {probabilities},
              {d_logits});
  return d_logits;
}

/// Appends the cap on the logits, if the model has one. Keeps the logits.
TensorId cap_logits(ProgramBuilder& builder, TensorId logits) {
  double const cap = builder.shape().model.logit_softcap;
  if (cap == 0) return logits;
  TensorId const capped = builder.make({"head.logits", "capped"}, builder.tensor(logits).shape);
  builder.add(OpKind::softcap, {"head.logits", "softcap"}, Phase::forward, {logits}, {capped},
              SoftcapAttributes{.cap = cap, .scale = 1});
  return capped;
}

void cap_backward(ProgramBuilder& builder, TensorId d_logits, TensorId logits) {
  double const cap = builder.shape().model.logit_softcap;
  if (cap == 0) return;
  builder.add(OpKind::softcap_backward, {"head.logits", "softcap_backward"}, Phase::input_gradient,
              {d_logits, logits}, {d_logits}, SoftcapAttributes{.cap = cap, .scale = 1});
}

/// The embedding as a module behind the layers uses it: the head's weight, if it is that; or a
/// copy.
TensorId embedding_behind(ProgramBuilder& builder, TensorId head, HeadWeight weight) {
  BlockShape const& shape = builder.shape();
  if (shape.model.tied_embeddings) return head;
  ParameterTraits copy = embedded_words(shape);
  copy.is_counted = false;
  copy.shared = weight == HeadWeight::shared;
  return builder.parameter({"embedding", "weight"}, {shape.vocabulary(), shape.model.hidden}, copy);
}

}  // namespace

TensorId embedding_forward(ProgramBuilder& builder, WordEmbedding& words, int ahead) {
  BlockShape const& shape = builder.shape();
  words.tokens = load(builder, OpKind::load_tokens, {"embedding", "tokens"}, ahead);
  TensorId const rows = look_up(builder, words.tokens, words.table, words.positions);
  if (shape.model.dropout == 0) return rows;
  return dropout_forward(builder, hidden_dropout(shape, DropoutSite::embedding),
                         {"embedding", "dropout"}, {"embedding", "output"},
                         {"embedding", "dropout_mask"}, rows, words.mask);
}

void embedding_backward(ProgramBuilder& builder, WordEmbedding const& words, TensorId dy) {
  BlockShape const& shape = builder.shape();
  TensorId const d_rows =
      shape.model.dropout > 0
          ? dropout_backward(builder, hidden_dropout(shape, DropoutSite::embedding),
                             {"embedding", "dropout_backward"}, {"embedding", "rows_gradient"}, dy,
                             words.mask)
          : dy;
  rows_backward(builder, words, d_rows);
}

void label_loss_forward(ProgramBuilder& builder, LabelLoss& loss, int ahead) {
  loss.labels = load(builder, OpKind::load_labels, {"loss", "labels"}, ahead);
  loss.output =
      column_parallel_forward(builder, loss.logits, loss.input, {"head.logits", "output"});
  loss.probabilities =
      loss_forward(builder, loss.vocabulary, cap_logits(builder, loss.output), loss.labels);
}

TensorId label_loss_backward(ProgramBuilder& builder, LabelLoss const& loss) {
  TensorId const d_logits = loss_backward(builder, loss);
  cap_backward(builder, d_logits, loss.output);
  return column_parallel_backward(builder, loss.logits, loss.input, d_logits);
}

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
