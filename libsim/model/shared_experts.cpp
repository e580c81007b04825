#include "libsim/model/shared_experts.hpp"

namespace stagecraft {
namespace {

/// Appends y = sigmoid(gate . x) times the experts' output. Returns y.
TensorId gate_forward(ProgramBuilder& builder, SharedExperts& shared, TensorId x) {
  BlockShape const& shape = builder.shape();
  std::int64_t const tokens = shape.tokens();
  shared.logits = builder.make({"shared_experts.gate", "logits"}, {tokens, 1});
  builder.gemm({"shared_experts.gate", "forward"}, Phase::forward,
               {.batch = 1, .m = tokens, .n = 1, .k = shape.model.hidden, .transpose_b = true}, x,
               shared.gate, shared.logits);
  Shape const hidden = builder.tensor(shared.output).shape;  // a copy: make() moves the tensors
  TensorId const y = builder.make({"shared_experts.gate", "output"}, hidden);
  builder.add(OpKind::scale_rows, {"shared_experts.gate", "scale"}, Phase::forward,
              {shared.output, shared.logits}, {y}, RowScaleAttributes{RowFactor::sigmoid});
  return y;
}

/// The gradients that the gate's backward leaves.
struct GateGradients {
  TensorId output = no_tensor;  ///< of what the experts compute
  TensorId x = no_tensor;       ///< of the normed hidden state, through the gate
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
      d_logits, shared.products.input, builder.gradient_of(shared.gate));
  return {d_output, dx};
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

TensorId shared_experts_forward(ProgramBuilder& builder, SharedExperts& shared, TensorId x) {
  shared.output = feed_forward(builder, shared.products, x);
  return shared.gate == no_tensor ? shared.output : gate_forward(builder, shared, x);
}

TensorId shared_experts_backward(ProgramBuilder& builder,
                                 SharedExperts const& shared,
                                 TensorId dy) {
  if (shared.gate == no_tensor) return feed_backward(builder, shared.products, dy);
  GateGradients const gradients = gate_backward(builder, shared, dy);
  TensorId const dx = feed_backward(builder, shared.products, gradients.output);
  builder.add(OpKind::add, {"shared_experts.gate", "add_input_gradient"}, Phase::input_gradient,
              {dx, gradients.x}, {dx});
  return dx;
}

}  // namespace stagecraft
