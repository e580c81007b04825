#include "libsim/modules/token_prediction.hpp"

namespace stagecraft {
namespace {

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

}  // namespace

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
    module.loss.vocabulary = {.words = shape.model.vocabulary,
                              .weight = prediction_loss_weight / modules};
  }
  builder.begin(Pass::forward, "head", 0);
  return prediction;
}

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

}  // namespace stagecraft
