#include "libsim/modules/experts/expert_products.hpp"

#include <algorithm>
#include <numeric>

#include "libsim/modules/experts/expert_router.hpp"

namespace stagecraft {
namespace {

/// The number of rows that the products of the rank's experts are expected to have. Buffers may
/// have room for more, because they hold the most rows that any of the plan's ranks computes.
std::int64_t expected_rows(BlockShape const& shape) {
  if (shape.rows_of_experts != nullptr) {
    GroupRows const& rows = *shape.rows_of_experts;
    return std::accumulate(rows.begin(), rows.end(), std::int64_t{0});
  }
  return shape.forced != nullptr ? shape.computed_rows()
                                 : shape.expected_rows() * shape.expert_tensor;
}

/// The products of the R = computed_rows() rows of a rank's experts: [R, depth] times the weights
/// [E/EP width, depth] of all its experts.
struct GroupedLinear {
  std::string_view owner;
  TensorId weight = no_tensor;
  std::int64_t width = 0;
  std::int64_t depth = 0;
  TensorId bias = no_tensor;           ///< [E/EP width]
  TensorId probabilities = no_tensor;  ///< [R]: factors of the bias
  TensorId counts = no_tensor;         ///< [ETP EP, E/EP]: the rows of each expert, if they differ
};

/// The rows of one expert: their number, if it is the same for each expert of the rank, or its
/// mean, rounded up.
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
  BlockShape const& shape = builder.shape();
  op.flops = 2 * expected_rows(shape) * linear.width * linear.depth;
  if (shape.rows_of_experts == nullptr) return;
  // Nobody reads the weights of an expert without rows, or adds to their gradients.
  auto& attributes = std::get<GemmAttributes>(op.attributes);
  attributes.rows = shape.rows_of_experts;
  auto const idle = std::count(attributes.rows->begin(), attributes.rows->end(), 0);
  Tensor const& weights = builder.tensor(gemm.accumulate ? c : b);
  std::int64_t const moved = weights.bytes().count() / shape.local_experts() * idle;
  op.traffic = Bytes{op.traffic.count() - (gemm.accumulate ? 2 : 1) * moved};
}

GroupedLinear up_of(ProgramBuilder const& builder, ExpertsLayer const& layer) {
  BlockShape const& shape = builder.shape();
  Shape const& weight = builder.tensor(layer.up).shape;
  return {.owner = "experts.up",
          .weight = layer.up,
          .width = weight[0] / shape.local_experts(),
          .depth = weight[1],
          .bias = layer.up_bias,
          .counts = layer.places.computed};
}

/// Rows of experts with the shape of others.
TensorId like(ProgramBuilder& builder, Name name, TensorId rows) {
  Shape const shape = builder.tensor(rows).shape;  // a copy: make() moves the tensors
  return builder.of_experts(builder.make(name, shape));
}

bool is_weighted_on_input(BlockShape const& shape) {
  return shape.model.experts->probabilities_on == ProbabilitiesOn::input;
}

/// If probabilities multiply what experts compute, they multiply the bias too.
GroupedLinear down_of(ProgramBuilder const& builder, ExpertsLayer const& layer) {
  Shape const& weight = builder.tensor(layer.down).shape;
  return {
      .owner = "experts.down",
      .weight = layer.down,
      .width = builder.shape().model.hidden,
      .depth = weight[1],
      .bias = layer.down_bias,
      .probabilities = is_weighted_on_input(builder.shape()) ? no_tensor : layer.row_probabilities,
      .counts = layer.places.computed};
}

/// Whether the bias is multiplied by the probability of each row.
bool is_weighted(GroupedLinear const& linear) { return linear.probabilities != no_tensor; }

OpAttributes bias_attributes(ProgramBuilder const& builder, GroupedLinear const& linear) {
  if (!is_weighted(linear)) return {};
  return GroupsAttributes{builder.shape().local_experts()};
}

TensorId grouped_forward(ProgramBuilder& builder,
                         GroupedLinear const& linear,
                         QuantisedOperands& low,
                         TensorId x,
                         Name y) {
  BlockShape const& shape = builder.shape();
  TensorId weight = linear.weight;
  if (shape.quantisation.is_on()) {
    std::int64_t const experts = shape.local_experts();
    low.weight = kept_copies(builder, linear.owner, linear.weight, experts);
    low.input = is_quantised(builder.tensor(x).type)
                    ? Quantised{.rows = x}
                    : quantise(builder, linear.owner, Phase::forward, x, {.groups = experts});
    weight = low.weight.rows;
    x = low.input.rows;
  }
  TensorId const result =
      builder.of_experts(builder.make(y, {shape.computed_rows(), linear.width}));
  grouped_product(builder, linear, "forward", Phase::forward,
                  {.batch = shape.local_experts(),
                   .m = rows_of_one(shape),
                   .n = linear.width,
                   .k = linear.depth,
                   .transpose_b = true},
                  x, weight, result);
  if (linear.bias != no_tensor) {
    builder.add(is_weighted(linear) ? OpKind::weighted_bias_add : OpKind::grouped_bias_add,
                {linear.owner, "bias_add"}, Phase::forward,
                {result, linear.bias, linear.probabilities, linear.counts}, {result},
                bias_attributes(builder, linear));
  }
  return result;
}

/// Appends dx = dy W and dW += dy^T x of every expert. Returns dx.
TensorId grouped_backward(ProgramBuilder& builder,
                          GroupedLinear const& linear,
                          QuantisedOperands const& low,
                          TensorId x,
                          TensorId dy,
                          Name dx) {
  BlockShape const& shape = builder.shape();
  bool const is_low = shape.quantisation.is_on();
  std::int64_t const experts = shape.local_experts();
  Quantised const gradient = is_low && !is_quantised(builder.tensor(dy).type)
                                 ? quantise(builder, linear.owner, Phase::input_gradient, dy,
                                            {.role = QuantisedRole::gradient, .groups = experts})
                                 : Quantised{.rows = dy};
  TensorId const weight =
      is_low ? weight_by_columns(builder, linear.owner, low.weight, experts) : linear.weight;
  TensorId const result =
      builder.of_experts(builder.make(dx, {shape.computed_rows(), linear.depth}));
  grouped_product(builder, linear, "input_gradient", Phase::input_gradient,
                  {.batch = shape.local_experts(),
                   .m = rows_of_one(shape),
                   .n = linear.depth,
                   .k = linear.width},
                  gradient.rows, weight, result);
  bool const sums_low = is_low && !shape.quantisation.keeps_high_gradients;
  TensorId const dy_by_columns =
      sums_low ? columns_of(builder, linear.owner, QuantisedRole::gradient, gradient, experts) : dy;
  TensorId const x_by_columns =
      sums_low ? columns_of(builder, linear.owner, QuantisedRole::input, low.input, experts) : x;
  grouped_product(builder, linear, "weight_gradient", Phase::weight_gradient,
                  {.batch = experts,
                   .m = linear.width,
                   .n = linear.depth,
                   .k = rows_of_one(shape),
                   .transpose_a = true,
                   .accumulate = true},
                  dy_by_columns, x_by_columns, builder.gradient_of(linear.weight));
  if (linear.bias != no_tensor) {
    Op& op = builder.add(
        is_weighted(linear) ? OpKind::weighted_bias_gradient : OpKind::grouped_bias_gradient,
        {linear.owner, "bias_gradient"}, Phase::weight_gradient,
        {dy, linear.probabilities, linear.counts}, {builder.gradient_of(linear.bias)},
        bias_attributes(builder, linear));
    op.traffic += builder.tensor(builder.gradient_of(linear.bias)).bytes();  // read too
  }
  return result;
}

/// What the experts read: the rows that arrive, or these rows times their probabilities.
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

}  // namespace

TensorId expert_products_forward(ProgramBuilder& builder, ExpertsLayer& layer, int index) {
  builder.begin(Pass::forward, "experts", index);
  layer.scaled_rows = scale_forward(builder, layer);
  layer.activation_input = grouped_forward(builder, up_of(builder, layer), layer.up_low,
                                           layer.scaled_rows, {"experts.activation", "input"});
  // Not a part of the activation, which may run again: it then reads what is stored.
  layer.stored_input = store_input(builder, "experts.activation", layer.activation_input);
  builder.begin(Pass::forward, "expert_activation", index);
  std::int64_t const rows = builder.tensor(layer.rows).shape[0];
  layer.activation_output = builder.of_experts(
      make_operand(builder, {"experts.down", "input"}, {rows, builder.tensor(layer.down).shape[1]},
                   activation_output_type(builder), builder.shape().local_experts()));
  if (is_weighted_on_input(builder.shape())) {
    activation_forward(builder, "experts.activation", layer.activation_input, no_tensor,
                       layer.activation_output);
  } else if (!builder.shape().model.experts->fused_weighting) {
    layer.unweighted_output =
        like(builder, {"experts.activation", "output"}, layer.activation_output);
    activation_forward(builder, "experts.activation", layer.activation_input, no_tensor,
                       layer.unweighted_output);
    builder.add(OpKind::scale_rows, {"experts.activation", "weight"}, Phase::forward,
                {layer.unweighted_output, layer.row_probabilities}, {layer.activation_output},
                RowScaleAttributes{});
  } else {
    builder.add(OpKind::weighted_activation, {"experts.activation", "forward"}, Phase::forward,
                {layer.activation_input, layer.row_probabilities}, {layer.activation_output},
                ActivationAttributes{builder.shape().model.activation});
  }
  builder.begin(Pass::forward, "experts", index);
  return grouped_forward(builder, down_of(builder, layer), layer.down_low, layer.activation_output,
                         {"experts.down", "output"});
}

RowTensors expert_products_backward(ProgramBuilder& builder,
                                    ExpertsLayer const& layer,
                                    int index,
                                    TensorId dy) {
  builder.begin(Pass::backward, "experts", index);
  std::int64_t const rows = builder.tensor(layer.rows).shape[0];
  TensorId d_of_bias = no_tensor;  // gradient of the probabilities as factors of the bias
  bool const is_on_input = is_weighted_on_input(builder.shape());
  if (layer.down_bias != no_tensor && !is_on_input) {
    d_of_bias = builder.of_experts(
        builder.make({"experts.down", "probability_gradient"}, {rows}, probability_type(builder)));
    builder.add(OpKind::bias_probability_gradient, {"experts.down", "probability_gradient"},
                Phase::input_gradient, {dy, layer.down_bias, layer.places.computed}, {d_of_bias},
                GroupsAttributes{builder.shape().local_experts()});
  }
  // An activation that runs again reads it, before the product for the gradient of the weight.
  bool const is_first = builder.shape().quantisation.fuses_activation;
  auto const restored = [&] {
    return restore_input(builder, "experts.activation", layer.activation_input, layer.stored_input);
  };
  TensorId input = is_first ? restored() : no_tensor;
  TensorId const d_output =
      grouped_backward(builder, down_of(builder, layer), layer.down_low, layer.activation_output,
                       dy, {"experts.activation", "output_gradient"});
  builder.begin(Pass::backward, "expert_activation", index);
  if (!is_first) input = restored();
  Shape const wide = builder.tensor(layer.activation_input).shape;
  TensorId const d_input =
      builder.of_experts(builder.make({"experts.activation", "input_gradient"}, wide));
  if (is_on_input) {
    activation_backward(builder, "experts.activation", {.x = input, .y = layer.activation_output},
                        d_output, d_input);
    builder.begin(Pass::backward, "experts", index);
    TensorId const d_scaled =
        grouped_backward(builder, up_of(builder, layer), layer.up_low, layer.scaled_rows, d_input,
                         {"experts.up", "input_gradient"});
    return scale_backward(builder, layer, d_scaled);
  }
  TensorId const d_probabilities = builder.of_experts(builder.make(
      {"experts.activation", "probability_gradient"}, {rows}, probability_type(builder)));
  if (layer.unweighted_output != no_tensor) {
    TensorId const d_unweighted =
        like(builder, {"experts.activation", "unweighted_gradient"}, layer.unweighted_output);
    builder.add(OpKind::scale_rows_backward, {"experts.activation", "weight_backward"},
                Phase::input_gradient, {d_output, layer.unweighted_output, layer.row_probabilities},
                {d_unweighted, d_probabilities}, RowScaleAttributes{});
    activation_backward(builder, "experts.activation", {.x = input, .y = layer.unweighted_output},
                        d_unweighted, d_input);
  } else {
    builder.add(OpKind::weighted_activation_backward, {"experts.activation", "backward"},
                Phase::input_gradient, {d_output, input, layer.row_probabilities},
                {d_input, d_probabilities}, ActivationAttributes{builder.shape().model.activation});
  }
  if (d_of_bias != no_tensor) {
    builder.add(OpKind::add, {"experts.down", "add_probability_gradient"}, Phase::input_gradient,
                {d_probabilities, d_of_bias}, {d_probabilities});
  }
  builder.begin(Pass::backward, "experts", index);
  TensorId const d_rows = grouped_backward(builder, up_of(builder, layer), layer.up_low, layer.rows,
                                           d_input, {"experts.up", "input_gradient"});
  return {d_rows, d_probabilities};
}
}  // namespace stagecraft
