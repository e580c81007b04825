#include "libsim/modules/feed_forward.hpp"

#include "libsim/modules/pointwise.hpp"

namespace stagecraft {
namespace {

/// The ops of an activation.
struct ActivationOps {
  OpKind forward = OpKind::gelu;
  OpKind backward = OpKind::gelu_backward;
};

ActivationOps ops_of(Activation activation) {
  switch (activation) {
    case Activation::gelu:
      break;
    case Activation::swiglu:
      return {OpKind::swiglu, OpKind::swiglu_backward};
    case Activation::relu:
      return {OpKind::relu, OpKind::relu_backward};
    case Activation::geglu:
      return {OpKind::geglu, OpKind::geglu_backward};
    case Activation::swiglu_clamped:
      return {OpKind::swiglu_clamped, OpKind::swiglu_clamped_backward};
  }
  return {};
}

}  // namespace

void activation_forward(
    ProgramBuilder& builder, std::string_view owner, TensorId x, TensorId bias, TensorId y) {
  builder.add(ops_of(builder.shape().model.activation).forward, {owner, "forward"}, Phase::forward,
              {x, bias}, {y});
}

void activation_backward(ProgramBuilder& builder,
                         std::string_view owner,
                         ActivationTensors const& kept,
                         TensorId dy,
                         TensorId dx) {
  Activation const activation = builder.shape().model.activation;
  // ReLU's gradient follows from its output, which the next product keeps anyway.
  TensorList const reads =
      activation == Activation::relu ? TensorList{dy, kept.y} : TensorList{dy, kept.x, kept.bias};
  builder.add(ops_of(activation).backward, {owner, "backward"}, Phase::input_gradient, reads, {dx});
}

namespace {

void activate(ProgramBuilder& builder, FeedForward& layer) {
  BlockShape const& shape = builder.shape();
  std::int64_t const width = builder.tensor(layer.down.weight).shape[1];
  layer.stored_input = store_input(builder, layer.activation, layer.activation_input);
  layer.activation_output =
      make_operand(builder, {layer.down.owner, "input"}, {shape.sequence(), shape.micro, width},
                   activation_output_type(builder));
  activation_forward(builder, layer.activation, layer.activation_input, layer.up_bias,
                     layer.activation_output);
}

/// Returns the gradient of the input of the activation.
TensorId activate_backward(ProgramBuilder& builder,
                           FeedForward const& layer,
                           TensorId d_activation) {
  Shape const wide = builder.tensor(layer.activation_input).shape;
  TensorId const d_up = builder.make({layer.activation, "input_gradient"}, wide);
  TensorId const x =
      restore_input(builder, layer.activation, layer.activation_input, layer.stored_input);
  activation_backward(builder, layer.activation, {x, layer.up_bias, layer.activation_output},
                      d_activation, d_up);
  bias_gradient(builder, layer.up.owner, d_up, layer.up_bias);
  return d_up;
}

}  // namespace

TensorId feed_forward(ProgramBuilder& builder, FeedForward& layer, TensorId x) {
  layer.input = x;
  layer.activation_input =
      column_parallel_forward(builder, layer.up, x, {layer.activation, "input"});
  activate(builder, layer);
  return row_parallel_forward(builder, layer.down, layer.activation_output,
                              {layer.down.owner, "output"});
}

TensorId feed_backward(ProgramBuilder& builder, FeedForward const& layer, TensorId dy) {
  TensorId const d_activation = row_parallel_backward(builder, layer.down, layer.activation_output,
                                                      dy, {layer.activation, "output_gradient"});
  return column_parallel_backward(builder, layer.up, layer.input,
                                  activate_backward(builder, layer, d_activation));
}

void first_half_forward(ProgramBuilder& builder, FeedForward& layer, TensorId gathered) {
  layer.input = gathered;
  layer.activation_input =
      column_product_forward(builder, layer.up, gathered, {layer.activation, "input"});
  activate(builder, layer);
}

TensorId first_half_backward(ProgramBuilder& builder,
                             FeedForward const& layer,
                             TensorId d_activation) {
  return column_product_backward(builder, layer.up, layer.input,
                                 activate_backward(builder, layer, d_activation));
}

}  // namespace stagecraft
