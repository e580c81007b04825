#include "libsim/modules/transformer_layer.hpp"

namespace stagecraft {

TransformerLayer make_transformer_layer(ProgramBuilder& builder) {
  TransformerLayer layer{make_attention(builder)};
  if (builder.shape().model.experts) {
    layer.experts = make_experts(builder);
  } else {
    layer.mlp = make_mlp(builder);
  }
  return layer;
}

TensorId layer_forward(
    ProgramBuilder& builder, TransformerLayer& layer, int index, TensorId x, Name y) {
  bool const is_parallel = builder.shape().model.residual != Residual::sequential;
  TensorId const sum =
      attention_forward(builder, layer.attention, index, x,
                        is_parallel ? Name{"mlp.output", "residual"} : Name{"mlp_norm", "input"});
  if (layer.experts) return experts_forward(builder, *layer.experts, index, sum, y);
  MlpInputs const inputs{
      .x = is_parallel ? x : sum, .normed = layer.attention.input, .residual = sum};
  return mlp_forward(builder, *layer.mlp, index, inputs, y);
}

TensorId layer_backward(ProgramBuilder& builder,
                        TransformerLayer const& layer,
                        int index,
                        TensorId dy) {
  TensorId const d_mlp = layer.experts ? experts_backward(builder, *layer.experts, index, dy)
                                       : mlp_backward(builder, *layer.mlp, index, dy);
  AttentionGradients gradients{.dy = d_mlp, .elsewhere = d_mlp};
  Residual const residual = builder.shape().model.residual;
  if (residual == Residual::parallel) gradients.dy = dy;
  if (residual == Residual::parallel_one_norm) {
    gradients = {.dy = dy, .elsewhere = dy, .normed = d_mlp};
  }
  return attention_backward(builder, layer.attention, index, gradients);
}

}  // namespace stagecraft
