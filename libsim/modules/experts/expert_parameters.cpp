#include "libsim/modules/experts/experts_layer.hpp"

namespace stagecraft {
namespace {

/// Marks a parameter as one of routed experts, of which a token uses k of E.
ParameterTraits of_experts(ProgramBuilder const& builder, ParameterTraits traits) {
  ExpertsConfig const& experts = *builder.shape().model.experts;
  traits.experts = experts.count;
  traits.experts_per_token = experts.per_token;
  traits.holders = builder.shape().expert_holders;
  return traits;
}

/// The rows of the first products of a rank's experts. Each expert has the rows of one branch, or
/// of two if the activation is gated; each branch is cut over the ranks that share the expert.
ParameterTraits up_rows(BlockShape const& shape,
                        std::int64_t width,
                        std::int64_t branches,
                        std::int64_t columns) {
  std::int64_t const local = shape.local_experts();
  std::int64_t const part = width / shape.expert_tensor;
  ParameterTraits traits{.whole_rows = shape.model.experts->count * branches * width,
                         .whole_columns = columns};
  AxisShare const by_expert{.axis = "expert", .stride = local * branches * width};
  if (shape.expert_tensor == 1) {
    traits.segments = {{.rows = local * branches * width, .shares = {by_expert}}};
    return traits;
  }
  traits.segments.reserve(static_cast<std::size_t>(local * branches));
  for (std::int64_t i = 0; i < local * branches; ++i) {
    traits.segments.push_back({.rows = part,
                               .first = i * width,
                               .shares = {by_expert, {.axis = "expert_tensor", .stride = part}}});
  }
  return traits;
}

void make_biases(ProgramBuilder& builder, ExpertsLayer& layer, std::int64_t branches) {
  BlockShape const& shape = builder.shape();
  ExpertsConfig const& experts = *shape.model.experts;
  std::int64_t const hidden = shape.model.hidden;
  layer.router_bias = builder.parameter({"router", "bias"}, {experts.count},
                                        replicated_vector(shape, experts.count));
  ParameterTraits up = of_experts(builder, up_rows(shape, experts.ffn_hidden, branches, 1));
  up.start = ParameterStart::zero;
  std::int64_t const width = experts.ffn_hidden / shape.expert_tensor;
  std::int64_t const local = shape.local_experts();
  layer.up_bias =
      builder.parameter({"experts.up", "bias"}, {local * branches * width}, std::move(up));
  ParameterTraits const down{
      .whole_rows = experts.count * hidden,
      .segments = {{.rows = local * hidden,
                    .shares = {{.axis = "expert", .stride = local * hidden},
                               {.axis = "expert_tensor", .replicas = shape.expert_tensor}}}},
      .start = ParameterStart::zero};
  layer.down_bias =
      builder.parameter({"experts.down", "bias"}, {local * hidden}, of_experts(builder, down));
}

}  // namespace

ExpertsLayer make_experts(ProgramBuilder& builder) {
  BlockShape const& shape = builder.shape();
  ModelConfig const& model = shape.model;
  ExpertsConfig const& experts = *model.experts;
  std::int64_t const branches = is_gated(model.activation) ? 2 : 1;
  std::int64_t const width = experts.ffn_hidden / shape.expert_tensor;
  std::int64_t const local = shape.local_experts();
  ExpertsLayer layer{.norm = make_norm(builder, "mlp_norm")};

  std::optional<GroupId> const sum =
      shape.sequence_parallel ? std::optional{shape.tensor_group} : std::nullopt;
  layer.router = builder.parameter({"router", "weight"}, {experts.count, model.hidden},
                                   replicated(shape.tensor, {experts.count, model.hidden}, sum));
  layer.up = builder.parameter(
      {"experts.up", "weight"}, {local * branches * width, model.hidden},
      of_experts(builder, up_rows(shape, experts.ffn_hidden, branches, model.hidden)));
  ParameterTraits down{
      .whole_rows = experts.count * model.hidden,
      .whole_columns = experts.ffn_hidden,
      .segments = {{.rows = local * model.hidden,
                    .shares = {{.axis = "expert", .stride = local * model.hidden}}}},
      .column_shares = {{.axis = "expert_tensor", .stride = width}},
      .start = ParameterStart::normal_output};
  layer.down = builder.parameter({"experts.down", "weight"}, {local * model.hidden, width},
                                 of_experts(builder, std::move(down)));
  if (experts.biases) make_biases(builder, layer, branches);
  layer.losses = make_router_losses(builder);
  if (experts.shared_ffn_hidden > 0) layer.shared = make_shared_experts(builder);
  return layer;
}

}  // namespace stagecraft
