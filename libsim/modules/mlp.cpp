#include "libsim/modules/mlp.hpp"

namespace stagecraft {
namespace {

bool is_gated(ProgramBuilder const& builder) { return is_gated(builder.shape().model.activation); }

/// Whether the MLP reads the output of attention's norm.
bool shares_norm(ProgramBuilder const& builder) {
  return builder.shape().model.residual == Residual::parallel_one_norm;
}

bool has_own_norm(ProgramBuilder const& builder) {
  return !shares_norm(builder) && builder.shape().model.norms != NormPlaces::post;
}

}  // namespace

MlpLayer make_mlp(ProgramBuilder& builder) {
  BlockShape const& shape = builder.shape();
  ModelConfig const& model = shape.model;
  bool const gated = is_gated(builder);
  std::int64_t const up_rows = (gated ? 2 : 1) * shape.ffn();
  auto const up = [&](std::int64_t columns) {
    RankRows const branch{.rows = shape.ffn()};
    return gated ? cut_by_rows(shape.tensor, {branch, branch}, columns)
                 : cut_by_rows(shape.tensor, {branch}, columns);
  };
  MlpLayer mlp;
  mlp.products.up.has_norm = has_own_norm(builder);
  if (has_own_norm(builder)) mlp.norm = make_norm(builder, "mlp_norm");
  mlp.products.up.weight =
      builder.parameter({"mlp.up", "weight"}, {up_rows, model.hidden}, up(model.hidden));
  if (model.biases) {
    ParameterTraits traits = up(1);
    traits.start = ParameterStart::zero;
    mlp.products.up_bias = builder.parameter({"mlp.up", "bias"}, {up_rows}, traits);
  }
  mlp.products.down.weight =
      output_weight(builder, {"mlp.down", "weight"}, {model.hidden, shape.ffn()});
  if (model.biases) {
    mlp.residual.bias = builder.parameter({"mlp.down", "bias"}, {model.hidden},
                                          replicated_vector(shape, model.hidden));
  }
  if (model.norms != NormPlaces::pre) mlp.residual.norm = make_norm(builder, "mlp_post_norm");
  return mlp;
}

TensorId mlp_forward(
    ProgramBuilder& builder, MlpLayer& mlp, int layer, MlpInputs const& inputs, Name y) {
  builder.begin(Pass::forward, "mlp_norm", layer);
  TensorId const input = has_own_norm(builder)
                             ? norm_forward(builder, mlp.norm, inputs.x, {"mlp.up", "input"})
                             : (shares_norm(builder) ? inputs.normed : inputs.x);
  builder.begin(Pass::forward, "mlp", layer);
  TensorId const down = feed_forward(builder, mlp.products, input);
  builder.begin(Pass::forward, "mlp_output", layer);
  return residual_forward(builder, mlp.residual, down, inputs.residual, y);
}

TensorId mlp_backward(ProgramBuilder& builder, MlpLayer const& mlp, int layer, TensorId dy) {
  builder.begin(Pass::backward, "mlp_output", layer);
  TensorId const d_down = residual_backward(builder, mlp.residual, dy);
  builder.begin(Pass::backward, "mlp", layer);
  TensorId const d_input = feed_backward(builder, mlp.products, d_down);
  if (shares_norm(builder)) return d_input;
  builder.begin(Pass::backward, "mlp_norm", layer);
  TensorId const dx = has_own_norm(builder) ? norm_backward(builder, mlp.norm, d_input) : d_input;
  builder.add(OpKind::add, {"mlp_norm", "residual_gradient"}, Phase::input_gradient, {dx, dy},
              {dx});
  return dx;
}

}  // namespace stagecraft
