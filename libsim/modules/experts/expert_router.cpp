#include "libsim/modules/experts/expert_router.hpp"

namespace stagecraft {
namespace {

/// The type of logits. With precision model it may differ from that of scores and probabilities.
ElementType logits_type(ProgramBuilder const& builder) {
  ModelConfig const& model = builder.shape().model;
  return model.experts->router.precision == RouterPrecision::fp32
             ? accumulation_type(model.precision)
             : builder.type();
}

RoutingAttributes routing_of(BlockShape const& shape) {
  ExpertsConfig const& experts = *shape.model.experts;
  RouterConfig const& router = experts.router;
  return {.score = router.score,
          .order = router.order,
          .normalise = router.normalise,
          .scaling = router.scaling,
          .per_token = experts.per_token,
          .groups = router.groups,
          .groups_per_token = router.groups_per_token,
          .expert_rows = shape.gathers_choices() ? 0 : shape.expert_rows(),
          .pads = shape.pads_experts,
          .drop = shape.drop,
          .unlimited = shape.is_natural || shape.gathers_choices(),
          .forced = shape.forced,
          .micro = shape.micro,
          .shards = shape.sequence_parallel ? shape.tensor : 1};
}

/// Gathers a tensor over all ranks that have tokens of the microbatch: first over the tensor group,
/// then over the parts of the sequence.
TensorId gather_over_tokens(ProgramBuilder& builder, TensorId part, std::string_view name) {
  BlockShape const& shape = builder.shape();
  TensorId whole = part;
  auto const gather = [&](std::string_view op, std::string_view made, int ranks, GroupId group) {
    if (ranks == 1) return;
    Tensor const from = builder.tensor(whole);
    TensorId const all = builder.make({name, made}, {from.shape[0] * ranks, from.shape[1]},
                                      from.type, Category::communication);
    builder.collective(OpKind::all_gather, {name, op}, Phase::forward, whole, all, all, group);
    whole = all;
  };
  gather("all_gather", "gathered", shape.sequence_parallel ? shape.tensor : 1, shape.tensor_group);
  gather("all_gather_exchange", "gathered_exchange", shape.exchange.ranks, shape.exchange.group);
  gather("all_gather_context", "gathered_context", shape.keys.ranks, shape.keys.group);
  return whole;
}

/// Appends the limit on the choices of a microbatch that several ranks have.
void limit_choices(ProgramBuilder& builder, TensorId probabilities, TensorId map) {
  RoutingAttributes routing = routing_of(builder.shape());
  routing.expert_rows = builder.shape().expert_rows();
  routing.unlimited = false;
  TensorId const all = gather_over_tokens(builder, probabilities, "router_probabilities");
  TensorId const choices = gather_over_tokens(builder, map, "router_map");
  builder.add(OpKind::limit_choices, {"router", "limit_choices"}, Phase::forward, {all, choices},
              {choices, map}, routing);
}

}  // namespace

TensorId route_forward(ProgramBuilder& builder, ExpertsLayer& layer) {
  BlockShape const& shape = builder.shape();
  ExpertsConfig const& experts = *shape.model.experts;
  std::int64_t const tokens = shape.tokens();
  TensorId const logits =
      builder.make({"router", "logits"}, {tokens, experts.count}, logits_type(builder));
  builder.gemm(
      {"router", "forward"}, Phase::forward,
      {.batch = 1, .m = tokens, .n = experts.count, .k = shape.model.hidden, .transpose_b = true},
      layer.input, layer.router, logits);
  if (layer.router_bias != no_tensor) {
    builder.add(OpKind::bias_add, {"router", "bias_add"}, Phase::forward,
                {logits, layer.router_bias}, {logits});
  }
  router_losses_forward(builder, layer.losses, logits);
  TensorId const probabilities =
      builder.make({"router", "probabilities"}, {tokens, experts.count}, probability_type(builder));
  layer.scores =
      builder.make({"router", "scores"}, {tokens, experts.count}, probability_type(builder));
  layer.map = builder.make({"router", "map"}, {tokens, experts.count}, ElementType::u8);
  builder.add(OpKind::route, {"router", "route"}, Phase::forward, {logits},
              {probabilities, layer.scores, layer.map}, routing_of(shape));
  if (shape.gathers_choices()) limit_choices(builder, probabilities, layer.map);
  return probabilities;
}

TensorId route_backward(ProgramBuilder& builder,
                        ExpertsLayer const& layer,
                        TensorId d_probabilities) {
  BlockShape const& shape = builder.shape();
  ExpertsConfig const& experts = *shape.model.experts;
  std::int64_t const tokens = shape.tokens();
  TensorId const d_logits = builder.make({"router", "logits_gradient"}, {tokens, experts.count});
  builder.add(OpKind::route_backward, {"router", "route_backward"}, Phase::input_gradient,
              {d_probabilities, layer.scores, layer.map}, {d_logits}, routing_of(shape));
  router_losses_backward(builder, layer.losses, d_logits);
  Shape const hidden = builder.tensor(layer.input).shape;  // a copy: make() moves the tensors
  TensorId const dx = builder.make({"router", "input_gradient"}, hidden);
  builder.gemm({"router", "input_gradient"}, Phase::input_gradient,
               {.batch = 1, .m = tokens, .n = shape.model.hidden, .k = experts.count}, d_logits,
               layer.router, dx);
  builder.gemm({"router", "weight_gradient"}, Phase::weight_gradient,
               {.batch = 1,
                .m = experts.count,
                .n = shape.model.hidden,
                .k = tokens,
                .transpose_a = true,
                .accumulate = true},
               d_logits, layer.input, builder.gradient_of(layer.router));
  bias_gradient(builder, "router", d_logits, layer.router_bias);
  return dx;
}
}  // namespace stagecraft
