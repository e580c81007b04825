#include "libsim/modules/label_loss.hpp"

#include "libsim/modules/word_embedding.hpp"

namespace stagecraft {

namespace {

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

}  // namespace

void label_loss_forward(ProgramBuilder& builder, LabelLoss& loss, int ahead) {
  loss.labels = load_words(builder, OpKind::load_labels, {"loss", "labels"}, ahead);
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

}  // namespace stagecraft
