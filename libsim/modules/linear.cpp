#include "libsim/modules/linear.hpp"

namespace stagecraft {
namespace {

Shape local(ProgramBuilder const& builder, std::int64_t features) {
  return {builder.shape().local_sequence(), builder.shape().micro, features};
}

/// Sums `partial` over the group: in place, or into this rank's shard `name`.
TensorId reduce(ProgramBuilder& builder,
                Name name,
                std::string_view owner,
                Phase phase,
                TensorId partial,
                std::int64_t features,
                Overlap overlap) {
  if (!builder.shape().sequence_parallel) {
    builder.collective(OpKind::all_reduce, {owner, "all_reduce"}, phase, partial, partial, partial,
                       overlap);
    return partial;
  }
  TensorId const shard = builder.make(name, local(builder, features));
  builder.collective(OpKind::reduce_scatter, {owner, "reduce_scatter"}, phase, partial, shard,
                     partial, overlap);
  return shard;
}

/// Rows of a product's operand: s b, or s/t b of a rank's own.
std::int64_t rows_of(ProgramBuilder const& builder, TensorId x) {
  Shape const& shape = builder.tensor(x).shape;
  return shape[0] * shape[1];
}

void product(ProgramBuilder& builder, Linear const& linear, TensorId x, TensorId y) {
  builder.gemm({linear.owner, "forward"}, Phase::forward,
               {.batch = 1,
                .m = rows_of(builder, x),
                .n = width_of(builder, linear),
                .k = depth_of(builder, linear),
                .transpose_b = true},
               x, is_low(builder, linear) ? linear.low.weight.rows : linear.weight, y);
}

void input_gradient(ProgramBuilder& builder,
                    Linear const& linear,
                    BackwardOperands const& operands,
                    TensorId dx) {
  builder.gemm({linear.owner, "input_gradient"}, Phase::input_gradient,
               {.batch = 1,
                .m = rows_of(builder, operands.dy),
                .n = depth_of(builder, linear),
                .k = width_of(builder, linear)},
               operands.dy, operands.weight, dx);
}

void weight_gradient(ProgramBuilder& builder,
                     Linear const& linear,
                     BackwardOperands const& operands,
                     TensorId x) {
  builder.gemm({linear.owner, "weight_gradient"}, Phase::weight_gradient,
               {.batch = 1,
                .m = width_of(builder, linear),
                .n = depth_of(builder, linear),
                .k = rows_of(builder, x),
                .transpose_a = true,
                .accumulate = true},
               operands.dy_by_columns, x, builder.gradient_of(linear.weight));
}

/// Appends the products of a row-parallel layer's backward. Returns dx.
TensorId row_products(ProgramBuilder& builder,
                      Linear const& linear,
                      TensorId x,
                      BackwardOperands const& operands,
                      Name dx) {
  TensorId const result = builder.make(dx, whole_rows(builder, depth_of(builder, linear)));
  input_gradient(builder, linear, operands, result);
  weight_gradient(builder, linear, operands, x);
  return result;
}

}  // namespace

TensorId output_weight(ProgramBuilder& builder, Name name, Shape const& shape) {
  ParameterTraits traits = cut_by_columns(builder.shape().tensor, shape);
  traits.start = ParameterStart::normal_output;
  return builder.parameter(name, shape, traits);
}

TensorId column_parallel_forward(ProgramBuilder& builder, Linear& linear, TensorId x, Name y) {
  return column_product_forward(builder, linear, forward_input(builder, linear, x, true), y);
}

TensorId gather_input(ProgramBuilder& builder, Linear const& linear, TensorId x) {
  return gather_rows(builder, {linear.owner, "gathered_input"}, {linear.owner, "all_gather"},
                     Phase::forward, x, depth_of(builder, linear), Overlap::none,
                     Category::activations);
}

TensorId column_product_forward(ProgramBuilder& builder, Linear const& linear, TensorId x, Name y) {
  TensorId const result = builder.make(y, whole_rows(builder, width_of(builder, linear)));
  product(builder, linear, x, result);
  return result;
}

TensorId column_product_backward(ProgramBuilder& builder,
                                 Linear const& linear,
                                 TensorId x,
                                 TensorId dy) {
  TensorId const partial = builder.make({linear.owner, "input_gradient"},
                                        whole_rows(builder, depth_of(builder, linear)));
  BackwardOperands const operands = high_operands(linear, dy);
  input_gradient(builder, linear, operands, partial);
  weight_gradient(builder, linear, operands, x);
  return partial;
}

TensorId sum_input_gradient(ProgramBuilder& builder, Linear const& linear, TensorId partial) {
  return reduce(builder, {linear.owner, "input_gradient_shard"}, linear.owner,
                Phase::input_gradient, partial, depth_of(builder, linear), Overlap::none);
}

TensorId column_parallel_backward(ProgramBuilder& builder,
                                  Linear const& linear,
                                  TensorId x,
                                  TensorId dy) {
  std::int64_t const features = depth_of(builder, linear);
  BackwardOperands const operands = backward_operands(builder, linear, dy);
  TensorId const input = gather_again(builder, linear, x);
  TensorId const partial =
      builder.make({linear.owner, "input_gradient"}, whole_rows(builder, features));
  input_gradient(builder, linear, operands, partial);
  TensorId const dx = reduce(builder, {linear.owner, "input_gradient_shard"}, linear.owner,
                             Phase::input_gradient, partial, features, Overlap::behind_compute);
  weight_gradient(builder, linear, operands, gathered_by_columns(builder, linear, input));
  return dx;
}

TensorId row_parallel_forward(ProgramBuilder& builder, Linear& linear, TensorId x, Name y) {
  x = forward_input(builder, linear, x, false);
  TensorId const partial = builder.make(y, whole_rows(builder, width_of(builder, linear)));
  product(builder, linear, x, partial);
  return reduce(builder, {linear.owner, "output_shard"}, linear.owner, Phase::forward, partial,
                width_of(builder, linear), Overlap::none);
}

TensorId row_parallel_backward(
    ProgramBuilder& builder, Linear const& linear, TensorId x, TensorId dy, Name dx) {
  BackwardOperands const operands = gathered_operands(builder, linear, dy);
  return row_products(builder, linear, input_by_columns(builder, linear, x), operands, dx);
}

TensorId row_product_backward(
    ProgramBuilder& builder, Linear const& linear, TensorId x, TensorId dy, Name dx) {
  return row_products(builder, linear, x, high_operands(linear, dy), dx);
}

TensorId own_rows_forward(ProgramBuilder& builder, Linear& linear, TensorId x, Name y) {
  TensorId const result = builder.make(y, local(builder, width_of(builder, linear)));
  product(builder, linear, forward_input(builder, linear, x, false), result);
  return result;
}

TensorId own_rows_backward(ProgramBuilder& builder, Linear const& linear, TensorId x, TensorId dy) {
  TensorId const dx =
      builder.make({linear.owner, "input_gradient"}, local(builder, depth_of(builder, linear)));
  BackwardOperands const operands = backward_operands(builder, linear, dy);
  input_gradient(builder, linear, operands, dx);
  weight_gradient(builder, linear, operands, input_by_columns(builder, linear, x));
  return dx;
}

}  // namespace stagecraft
