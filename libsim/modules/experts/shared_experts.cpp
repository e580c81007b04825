#include "libsim/modules/experts/shared_experts.hpp"

namespace stagecraft {
namespace {

/// Appends logits = gate . x, if there is a gate.
void gate_logits_forward(ProgramBuilder& builder, SharedExperts& shared) {
  if (shared.gate == no_tensor) return;
  BlockShape const& shape = builder.shape();
  std::int64_t const tokens = shape.tokens();
  shared.logits = builder.make({"shared_experts.gate", "logits"}, {tokens, 1});
  builder.gemm({"shared_experts.gate", "forward"}, Phase::forward,
               {.batch = 1, .m = tokens, .n = 1, .k = shape.model.hidden, .transpose_b = true},
               shared.input, shared.gate, shared.logits);
}

/// Appends y = sigmoid(logits) times the experts' output. Returns y, or the output without a gate.
TensorId gate_forward(ProgramBuilder& builder, SharedExperts const& shared) {
  if (shared.gate == no_tensor) return shared.output;
  Shape const hidden = builder.tensor(shared.output).shape;  // a copy: make() moves the tensors
  TensorId const y = builder.make({"shared_experts.gate", "output"}, hidden);
  builder.add(OpKind::scale_rows, {"shared_experts.gate", "scale"}, Phase::forward,
              {shared.output, shared.logits}, {y}, RowScaleAttributes{RowFactor::sigmoid});
  return y;
}

/// The gradients that the gate's backward leaves.
struct GateGradients {
  TensorId output = no_tensor;  ///< gradient of what the experts compute
  TensorId x = no_tensor;       ///< gradient of the normed hidden state, through the gate
};

GateGradients gate_backward(ProgramBuilder& builder, SharedExperts const& shared, TensorId dy) {
  BlockShape const& shape = builder.shape();
  std::int64_t const tokens = shape.tokens();
  std::int64_t const width = shape.model.hidden;
  Shape const hidden = builder.tensor(shared.output).shape;
  TensorId const d_output = builder.make({"shared_experts.gate", "scaled_gradient"}, hidden);
  TensorId const d_logits = builder.make({"shared_experts.gate", "logits_gradient"}, {tokens, 1});
  builder.add(OpKind::scale_rows_backward, {"shared_experts.gate", "scale_backward"},
              Phase::input_gradient, {dy, shared.output, shared.logits}, {d_output, d_logits},
              RowScaleAttributes{RowFactor::sigmoid});
  TensorId const dx = builder.make({"shared_experts.gate", "input_gradient"}, hidden);
  builder.gemm({"shared_experts.gate", "input_gradient"}, Phase::input_gradient,
               {.batch = 1, .m = tokens, .n = width, .k = 1}, d_logits, shared.gate, dx);
  builder.gemm(
      {"shared_experts.gate", "weight_gradient"}, Phase::weight_gradient,
      {.batch = 1, .m = 1, .n = width, .k = tokens, .transpose_a = true, .accumulate = true},
      d_logits, shared.input, builder.gradient_of(shared.gate));
  return {d_output, dx};
}

/// The gradient of x through the products, and through the gate if there is one.
TensorId add_gate_gradient(ProgramBuilder& builder, TensorId dx, TensorId through_gate) {
  if (through_gate == no_tensor) return dx;
  builder.add(OpKind::add, {"shared_experts.gate", "add_input_gradient"}, Phase::input_gradient,
              {dx, through_gate}, {dx});
  return dx;
}

}  // namespace

SharedExperts make_shared_experts(ProgramBuilder& builder) {
  BlockShape const& shape = builder.shape();
  ModelConfig const& model = shape.model;
  std::int64_t const width = model.experts->shared_ffn_hidden / shape.tensor;
  std::int64_t const branches = is_gated(model.activation) ? 2 : 1;
  RankRows const branch{.rows = width};
  SharedExperts shared;
  shared.products.up.weight =
      builder.parameter({"shared_experts.up", "weight"}, {branches * width, model.hidden},
                        branches == 2 ? cut_by_rows(shape.tensor, {branch, branch}, model.hidden)
                                      : cut_by_rows(shape.tensor, {branch}, model.hidden));
  shared.products.down.weight =
      output_weight(builder, {"shared_experts.down", "weight"}, {model.hidden, width});
  if (model.experts->shared_gate) {
    std::optional<GroupId> const sum =
        shape.sequence_parallel ? std::optional{shape.tensor_group} : std::nullopt;
    shared.gate = builder.parameter({"shared_experts.gate", "weight"}, {1, model.hidden},
                                    replicated(shape.tensor, {1, model.hidden}, sum));
  }
  return shared;
}

TensorId shared_experts_forward(ProgramBuilder& builder,
                                SharedExperts& shared,
                                TensorId x,
                                TensorId sent) {
  shared.input = x;
  shared.products.up.casts_back = sent != x;
  shared.output = feed_forward(builder, shared.products, sent);
  gate_logits_forward(builder, shared);
  return gate_forward(builder, shared);
}

TensorId shared_experts_backward(ProgramBuilder& builder,
                                 SharedExperts const& shared,
                                 TensorId dy,
                                 TensorId sent) {
  if (shared.gate == no_tensor) return feed_backward(builder, shared.products, sent);
  GateGradients const gradients = gate_backward(builder, shared, dy);
  TensorId const dx = feed_backward(builder, shared.products, gradients.output);
  return add_gate_gradient(builder, dx, gradients.x);
}

void shared_begin_forward(ProgramBuilder& builder, SharedExperts& shared, TensorId x) {
  shared.input = x;
  gate_logits_forward(builder, shared);
  shared.products.input = gather_input(builder, shared.products.up, x);
}

void shared_first_half_forward(ProgramBuilder& builder, SharedExperts& shared) {
  first_half_forward(builder, shared.products, shared.products.input);
}

TensorId shared_second_half_forward(ProgramBuilder& builder, SharedExperts& shared) {
  FeedForward& products = shared.products;
  shared.output = row_parallel_forward(builder, products.down, products.activation_output,
                                       {products.down.owner, "output"});
  return gate_forward(builder, shared);
}

SharedGradients shared_begin_backward(ProgramBuilder& builder,
                                      SharedExperts const& shared,
                                      TensorId dy) {
  SharedGradients gradients;
  if (shared.gate != no_tensor) {
    GateGradients const through_gate = gate_backward(builder, shared, dy);
    dy = through_gate.output;
    gradients.gate_input = through_gate.x;
  }
  gradients.output = gather_output_gradient(builder, shared.products.down, dy);
  return gradients;
}

void shared_second_half_backward(ProgramBuilder& builder,
                                 SharedExperts const& shared,
                                 SharedGradients& gradients) {
  FeedForward const& products = shared.products;
  gradients.activation =
      row_product_backward(builder, products.down, products.activation_output, gradients.output,
                           {products.activation, "output_gradient"});
}

void shared_first_half_backward(ProgramBuilder& builder,
                                SharedExperts const& shared,
                                SharedGradients& gradients) {
  gradients.partial = first_half_backward(builder, shared.products, gradients.activation);
}

TensorId shared_end_backward(ProgramBuilder& builder,
                             SharedExperts const& shared,
                             SharedGradients const& gradients) {
  TensorId const dx = sum_input_gradient(builder, shared.products.up, gradients.partial);
  return add_gate_gradient(builder, dx, gradients.gate_input);
}

}  // namespace stagecraft
