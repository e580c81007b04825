#include "libsim/modules/pointwise.hpp"

namespace stagecraft {
namespace {

bool has_dropout(ProgramBuilder const& builder) { return builder.shape().model.dropout > 0; }
bool stores_masks(ProgramBuilder const& builder) { return stores_masks(builder.shape().model); }

NormAttributes norm_attributes(ProgramBuilder const& builder) {
  ModelConfig const& model = builder.shape().model;
  return {.norm = model.norm, .epsilon = model.norm_epsilon};
}

}  // namespace

ParameterTraits replicated_vector(BlockShape const& shape, std::int64_t size) {
  ParameterTraits traits = replicated(shape.tensor, {size});
  if (shape.sequence_parallel) traits.segments.front().gradient_sum = shape.tensor_group;
  traits.start = ParameterStart::zero;
  return traits;
}

NormLayer make_norm(ProgramBuilder& builder, std::string_view owner) {
  BlockShape const& shape = builder.shape();
  NormLayer norm{.owner = owner};
  ParameterTraits traits = replicated_vector(shape, shape.model.hidden);
  traits.start = ParameterStart::one;
  norm.weight = builder.parameter({owner, "weight"}, {shape.model.hidden}, traits);
  if (shape.model.norm == Norm::layernorm) {
    traits.start = ParameterStart::zero;
    norm.bias = builder.parameter({owner, "bias"}, {shape.model.hidden}, traits);
  }
  return norm;
}

TensorId norm_forward(ProgramBuilder& builder, NormLayer& norm, TensorId x, Name y) {
  BlockShape const& shape = builder.shape();
  std::int64_t const rows = shape.local_sequence() * shape.micro;
  std::int64_t const moments = shape.model.norm == Norm::layernorm ? 2 : 1;
  norm.input = x;
  norm.statistics = builder.make({norm.owner, "statistics"}, {moments, rows},
                                 accumulation_type(shape.model.precision));
  TensorId const result = builder.make(y, builder.tensor(x).shape);
  builder.add(OpKind::norm, {norm.owner, "forward"}, Phase::forward, {x, norm.weight, norm.bias},
              {result, norm.statistics}, norm_attributes(builder));
  return result;
}

TensorId norm_backward(ProgramBuilder& builder, NormLayer const& norm, TensorId dy) {
  TensorList gradients{builder.gradient_of(norm.weight)};
  if (norm.bias != no_tensor) gradients.push_back(builder.gradient_of(norm.bias));
  builder.add(OpKind::norm_weight_gradient, {norm.owner, "weight_gradient"}, Phase::weight_gradient,
              {dy, norm.input, norm.statistics}, gradients, norm_attributes(builder));
  TensorId const dx =
      builder.make({norm.owner, "input_gradient"}, builder.tensor(norm.input).shape);
  builder.add(OpKind::norm_backward, {norm.owner, "input_gradient"}, Phase::input_gradient,
              {dy, norm.input, norm.statistics, norm.weight}, {dx}, norm_attributes(builder));
  return dx;
}

DropoutAttributes hidden_dropout(BlockShape const& shape, DropoutSite site) {
  return {.site = site,
          .rate = shape.model.dropout,
          .shards = shape.sequence_parallel ? shape.tensor : 1};
}

TensorId residual_forward(
    ProgramBuilder& builder, ResidualAdd& add, TensorId x, TensorId residual, Name y) {
  bool const is_normed = add.norm.weight != no_tensor;
  if (is_normed && add.bias != no_tensor) {
    builder.add(OpKind::bias_add, {add.owner, "bias_add"}, Phase::forward, {x, add.bias}, {x});
  }
  if (is_normed) x = norm_forward(builder, add.norm, x, {add.owner, "normed"});
  Shape const shape = builder.tensor(x).shape;  // a copy: make() moves the tensors
  TensorId const result = builder.make(y, shape);
  if (has_dropout(builder) && stores_masks(builder)) {
    add.mask = builder.make({add.owner, "dropout_mask"}, shape, ElementType::u8);
  }
  Op& op = builder.add(OpKind::bias_dropout_add, {add.owner, "dropout_add"}, Phase::forward,
                       {x, residual, is_normed ? no_tensor : add.bias}, {result, add.mask},
                       hidden_dropout(builder.shape(), add.site));
  op.draws_random = has_dropout(builder);
  return result;
}

TensorId residual_backward(ProgramBuilder& builder, ResidualAdd const& add, TensorId dy) {
  TensorId dx = has_dropout(builder)
                    ? dropout_backward(builder, hidden_dropout(builder.shape(), add.site),
                                       {add.owner, "dropout_backward"},
                                       {add.owner, "dropout_gradient"}, dy, add.mask)
                    : dy;
  if (add.norm.weight != no_tensor) dx = norm_backward(builder, add.norm, dx);
  bias_gradient(builder, add.owner, dx, add.bias);
  return dx;
}

TensorId dropout_forward(ProgramBuilder& builder,
                         DropoutAttributes const& dropout,
                         Name op_name,
                         Name y,
                         Name mask_name,
                         TensorId x,
                         TensorId& mask) {
  Shape const shape = builder.tensor(x).shape;  // a copy: make() moves the tensors
  TensorId const result = builder.make(y, shape);
  if (stores_masks(builder)) mask = builder.make(mask_name, shape, ElementType::u8);
  Op& op = builder.add(OpKind::dropout, op_name, Phase::forward, {x}, {result, mask}, dropout);
  op.draws_random = true;
  return result;
}

TensorId dropout_again(
    ProgramBuilder& builder, DropoutAttributes const& dropout, Name op_name, Name y, TensorId x) {
  Shape const shape = builder.tensor(x).shape;  // a copy: make() moves the tensors
  TensorId const result = builder.make(y, shape, builder.type(), Category::recomputed);
  Op& op = builder.add(OpKind::dropout, op_name, Phase::input_gradient, {x}, {result, no_tensor},
                       dropout);
  op.draws_random = true;
  return result;
}

TensorId dropout_backward(ProgramBuilder& builder,
                          DropoutAttributes const& dropout,
                          Name op_name,
                          Name dx,
                          TensorId dy,
                          TensorId mask) {
  TensorId const result = builder.make(dx, builder.tensor(dy).shape);
  Op& op = builder.add(OpKind::dropout_backward, op_name, Phase::input_gradient, {dy, mask},
                       {result}, dropout);
  op.draws_random = mask == no_tensor;
  return result;
}

void bias_gradient(ProgramBuilder& builder, std::string_view owner, TensorId dy, TensorId bias) {
  if (bias == no_tensor) return;
  builder.add(OpKind::bias_gradient, {owner, "bias_gradient"}, Phase::weight_gradient, {dy},
              {builder.gradient_of(bias)});
}

}  // namespace stagecraft
