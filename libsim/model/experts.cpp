#include "libsim/model/experts.hpp"

namespace stagecraft {
namespace {

/// R: rows that the rank's experts compute.
std::int64_t computed_rows(BlockShape const& shape) {
  return shape.received_rows() * shape.expert_tensor;
}
/// Those of them that products are expected to be of.
std::int64_t expected_rows(BlockShape const& shape) {
  return shape.expected_rows() * shape.expert_tensor;
}

/// The type of logits, which is that of scores and probabilities except with precision model.
ElementType logits_type(ProgramBuilder const& builder) {
  ModelConfig const& model = builder.shape().model;
  return model.experts->router.precision == RouterPrecision::fp32
             ? accumulation_type(model.precision)
             : builder.type();
}

ElementType probability_type(ProgramBuilder const& builder) {
  return accumulation_type(builder.shape().model.precision);
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
          .expert_rows = shape.expert_rows(),
          .pads = shape.pads_experts,
          .drop = shape.drop,
          .unlimited = shape.is_natural,
          .forced = shape.forced,
          .micro = shape.micro,
          .shards = shape.sequence_parallel ? shape.tensor : 1};
}

void add_to(ProgramBuilder& builder, Name name, Phase phase, TensorId sum, TensorId part) {
  builder.add(OpKind::add, name, phase, {sum, part}, {sum});
}

/// Appends the router's product and choice. Returns the probabilities [T, E].
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
  return probabilities;
}

/// Appends the backward of both, and returns the gradient of the router's input.
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

/// The products of a rank's experts: [R, depth] and the weights [E/EP width, depth] of all of them.
struct GroupedLinear {
  std::string_view owner;
  TensorId weight = no_tensor;
  std::int64_t width = 0;
  std::int64_t depth = 0;
  TensorId bias = no_tensor;           ///< [E/EP width]
  TensorId probabilities = no_tensor;  ///< [R]: factors of the bias
  TensorId counts = no_tensor;         ///< [EP, E/EP]: the rows of each expert, if they differ
};

/// Rows of one expert: as many for each of the rank, or their mean, rounded up.
std::int64_t rows_of_one(BlockShape const& shape) {
  return (expected_rows(shape) + shape.local_experts() - 1) / shape.local_experts();
}

void grouped_product(ProgramBuilder& builder,
                     GroupedLinear const& linear,
                     std::string_view part,
                     Phase phase,
                     GemmShape const& gemm,
                     TensorId a,
                     TensorId b,
                     TensorId c) {
  Op& op = builder.grouped_gemm({linear.owner, part}, phase, gemm, a, b, c, linear.counts);
  op.flops = 2 * expected_rows(builder.shape()) * linear.width * linear.depth;
}

GroupedLinear up_of(ProgramBuilder const& builder, ExpertsLayer const& layer) {
  BlockShape const& shape = builder.shape();
  Shape const& weight = builder.tensor(layer.up).shape;
  return {.owner = "experts.up",
          .weight = layer.up,
          .width = weight[0] / shape.local_experts(),
          .depth = weight[1],
          .bias = layer.up_bias,
          .counts = layer.places.received};
}

bool is_weighted_on_input(BlockShape const& shape) {
  return shape.model.experts->probabilities_on == ProbabilitiesOn::input;
}

/// Where probabilities multiply what experts compute, they multiply the bias too.
GroupedLinear down_of(ProgramBuilder const& builder, ExpertsLayer const& layer) {
  Shape const& weight = builder.tensor(layer.down).shape;
  return {
      .owner = "experts.down",
      .weight = layer.down,
      .width = builder.shape().model.hidden,
      .depth = weight[1],
      .bias = layer.down_bias,
      .probabilities = is_weighted_on_input(builder.shape()) ? no_tensor : layer.row_probabilities,
      .counts = layer.places.received};
}

TensorId grouped_forward(ProgramBuilder& builder, GroupedLinear const& linear, TensorId x, Name y) {
  BlockShape const& shape = builder.shape();
  TensorId const result = builder.of_experts(builder.make(y, {computed_rows(shape), linear.width}));
  grouped_product(builder, linear, "forward", Phase::forward,
                  {.batch = shape.local_experts(),
                   .m = rows_of_one(shape),
                   .n = linear.width,
                   .k = linear.depth,
                   .transpose_b = true},
                  x, linear.weight, result);
  if (linear.bias != no_tensor) {
    builder.add(OpKind::grouped_bias_add, {linear.owner, "bias_add"}, Phase::forward,
                {result, linear.bias, linear.probabilities}, {result});
  }
  return result;
}

/// Appends dx = dy W and dW += dy^T x of every expert. Returns dx.
TensorId grouped_backward(
    ProgramBuilder& builder, GroupedLinear const& linear, TensorId x, TensorId dy, Name dx) {
  BlockShape const& shape = builder.shape();
  TensorId const result =
      builder.of_experts(builder.make(dx, {computed_rows(shape), linear.depth}));
  grouped_product(builder, linear, "input_gradient", Phase::input_gradient,
                  {.batch = shape.local_experts(),
                   .m = rows_of_one(shape),
                   .n = linear.depth,
                   .k = linear.width},
                  dy, linear.weight, result);
  grouped_product(builder, linear, "weight_gradient", Phase::weight_gradient,
                  {.batch = shape.local_experts(),
                   .m = linear.width,
                   .n = linear.depth,
                   .k = rows_of_one(shape),
                   .transpose_a = true,
                   .accumulate = true},
                  dy, x, builder.gradient_of(linear.weight));
  if (linear.bias != no_tensor) {
    Op& op = builder.add(OpKind::grouped_bias_gradient, {linear.owner, "bias_gradient"},
                         Phase::weight_gradient, {dy, linear.probabilities},
                         {builder.gradient_of(linear.bias)});
    op.traffic += builder.tensor(builder.gradient_of(linear.bias)).bytes();  // read too
  }
  return result;
}

/// What the experts read: the rows that arrive, or these times their probabilities.
/// Source: Megatron-LM, experts.py: moe_apply_probs_on_input.
TensorId scale_forward(ProgramBuilder& builder, ExpertsLayer const& layer) {
  if (!is_weighted_on_input(builder.shape())) return layer.rows;
  Shape const rows = builder.tensor(layer.rows).shape;  // a copy: make() moves the tensors
  TensorId const scaled = builder.of_experts(builder.make({"experts.up", "input"}, rows));
  builder.add(OpKind::scale_rows, {"experts.up", "scale_input"}, Phase::forward,
              {layer.rows, layer.row_probabilities}, {scaled}, RowScaleAttributes{});
  return scaled;
}

RowTensors scale_backward(ProgramBuilder& builder, ExpertsLayer const& layer, TensorId d_scaled) {
  Shape const rows = builder.tensor(layer.rows).shape;
  TensorId const d_rows = builder.of_experts(builder.make({"experts.up", "rows_gradient"}, rows));
  TensorId const d_probabilities = builder.of_experts(
      builder.make({"experts.up", "probability_gradient"}, {rows[0]}, probability_type(builder)));
  builder.add(OpKind::scale_rows_backward, {"experts.up", "scale_backward"}, Phase::input_gradient,
              {d_scaled, layer.rows, layer.row_probabilities}, {d_rows, d_probabilities},
              RowScaleAttributes{});
  return {d_rows, d_probabilities};
}

/// Appends the routed experts. Returns their output [R, h].
TensorId compute_forward(ProgramBuilder& builder, ExpertsLayer& layer, int index) {
  builder.begin(Pass::forward, "experts", index);
  layer.scaled_rows = scale_forward(builder, layer);
  layer.activation_input = grouped_forward(builder, up_of(builder, layer), layer.scaled_rows,
                                           {"experts.activation", "input"});
  builder.begin(Pass::forward, "expert_activation", index);
  std::int64_t const rows = builder.tensor(layer.rows).shape[0];
  layer.activation_output = builder.of_experts(
      builder.make({"experts.down", "input"}, {rows, builder.tensor(layer.down).shape[1]}));
  if (is_weighted_on_input(builder.shape())) {
    activation_forward(builder, "experts.activation", layer.activation_input, no_tensor,
                       layer.activation_output);
  } else {
    builder.add(OpKind::weighted_activation, {"experts.activation", "forward"}, Phase::forward,
                {layer.activation_input, layer.row_probabilities}, {layer.activation_output},
                ActivationAttributes{builder.shape().model.activation});
  }
  builder.begin(Pass::forward, "experts", index);
  return grouped_forward(builder, down_of(builder, layer), layer.activation_output,
                         {"experts.down", "output"});
}

/// Appends their backward. Returns the gradients of the rows and of their probabilities.
RowTensors compute_backward(ProgramBuilder& builder,
                            ExpertsLayer const& layer,
                            int index,
                            TensorId dy) {
  builder.begin(Pass::backward, "experts", index);
  std::int64_t const rows = builder.tensor(layer.rows).shape[0];
  TensorId d_of_bias = no_tensor;  // of the probabilities, as factors of the bias
  bool const is_on_input = is_weighted_on_input(builder.shape());
  if (layer.down_bias != no_tensor && !is_on_input) {
    d_of_bias =
        builder.make({"experts.down", "probability_gradient"}, {rows}, probability_type(builder));
    builder.add(OpKind::bias_probability_gradient, {"experts.down", "probability_gradient"},
                Phase::input_gradient, {dy, layer.down_bias}, {d_of_bias});
  }
  TensorId const d_output =
      grouped_backward(builder, down_of(builder, layer), layer.activation_output, dy,
                       {"experts.activation", "output_gradient"});
  builder.begin(Pass::backward, "expert_activation", index);
  Shape const wide = builder.tensor(layer.activation_input).shape;
  TensorId const d_input =
      builder.of_experts(builder.make({"experts.activation", "input_gradient"}, wide));
  if (is_on_input) {
    activation_backward(builder, "experts.activation",
                        {.x = layer.activation_input, .y = layer.activation_output}, d_output,
                        d_input);
    builder.begin(Pass::backward, "experts", index);
    TensorId const d_scaled = grouped_backward(builder, up_of(builder, layer), layer.scaled_rows,
                                               d_input, {"experts.up", "input_gradient"});
    return scale_backward(builder, layer, d_scaled);
  }
  TensorId const d_probabilities = builder.of_experts(builder.make(
      {"experts.activation", "probability_gradient"}, {rows}, probability_type(builder)));
  builder.add(OpKind::weighted_activation_backward, {"experts.activation", "backward"},
              Phase::input_gradient, {d_output, layer.activation_input, layer.row_probabilities},
              {d_input, d_probabilities}, ActivationAttributes{builder.shape().model.activation});
  if (d_of_bias != no_tensor) {
    add_to(builder, {"experts.down", "add_probability_gradient"}, Phase::input_gradient,
           d_probabilities, d_of_bias);
  }
  builder.begin(Pass::backward, "experts", index);
  TensorId const d_rows = grouped_backward(builder, up_of(builder, layer), layer.rows, d_input,
                                           {"experts.up", "input_gradient"});
  return {d_rows, d_probabilities};
}

bool has_shared(ProgramBuilder const& builder) {
  return builder.shape().model.experts->shared_ffn_hidden > 0;
}

}  // namespace

TensorId experts_forward(
    ProgramBuilder& builder, ExpertsLayer& layer, int index, TensorId x, Name y) {
  builder.begin(Pass::forward, "mlp_norm", index);
  layer.input = norm_forward(builder, layer.norm, x, {"experts", "input"});
  TensorId shared = no_tensor;
  if (has_shared(builder)) {
    builder.begin(Pass::forward, "shared_experts", index);
    shared = shared_experts_forward(builder, layer.shared, layer.input);
  }
  builder.begin(Pass::forward, "router", index);
  TensorId const probabilities = route_forward(builder, layer);
  builder.begin(Pass::forward, "dispatch", index);
  Dispatched const sent = dispatch_forward(builder, layer.input, probabilities, layer.map);
  layer.rows = sent.rows.rows;
  layer.row_probabilities = sent.rows.probabilities;
  layer.places = sent.places;
  TensorId const computed = compute_forward(builder, layer, index);
  builder.begin(Pass::forward, "combine", index);
  TensorId const combined = combine_forward(builder, computed, layer.places);
  if (shared != no_tensor) {
    add_to(builder, {"combine", "add_shared"}, Phase::forward, combined, shared);
  }
  builder.begin(Pass::forward, "mlp_output", index);
  return residual_forward(builder, layer.residual, combined, x, y);
}

TensorId experts_backward(ProgramBuilder& builder,
                          ExpertsLayer const& layer,
                          int index,
                          TensorId dy) {
  builder.begin(Pass::backward, "mlp_output", index);
  TensorId const d_combined = residual_backward(builder, layer.residual, dy);
  builder.begin(Pass::backward, "combine", index);
  TensorId const d_computed = combine_backward(builder, d_combined, layer.places);
  RowTensors const d_rows = compute_backward(builder, layer, index, d_computed);
  builder.begin(Pass::backward, "dispatch", index);
  TokenGradients const d_tokens = dispatch_backward(builder, d_rows, layer.places, layer.input);
  builder.begin(Pass::backward, "router", index);
  TensorId const d_routed = route_backward(builder, layer, d_tokens.probabilities);
  TensorId const d_input = d_tokens.x;
  add_to(builder, {"router", "add_input_gradient"}, Phase::input_gradient, d_input, d_routed);
  if (has_shared(builder)) {
    builder.begin(Pass::backward, "shared_experts", index);
    TensorId const d_shared = shared_experts_backward(builder, layer.shared, d_combined);
    add_to(builder, {"shared_experts", "add_input_gradient"}, Phase::input_gradient, d_input,
           d_shared);
  }
  builder.begin(Pass::backward, "mlp_norm", index);
  TensorId const dx = norm_backward(builder, layer.norm, d_input);
  add_to(builder, {"mlp_norm", "residual_gradient"}, Phase::input_gradient, dx, dy);
  return dx;
}

}  // namespace stagecraft
