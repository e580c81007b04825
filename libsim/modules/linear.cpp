#include "libsim/modules/linear.hpp"

namespace stagecraft {
namespace {

std::int64_t width(ProgramBuilder const& builder, Linear const& linear) {
  return builder.tensor(linear.weight).shape[0];
}
std::int64_t depth(ProgramBuilder const& builder, Linear const& linear) {
  return builder.tensor(linear.weight).shape[1];
}
/// Rows of the whole activation: s * b.
std::int64_t rows(ProgramBuilder const& builder) {
  return builder.shape().sequence() * builder.shape().micro;
}
Shape whole(ProgramBuilder const& builder, std::int64_t features) {
  return {builder.shape().sequence(), builder.shape().micro, features};
}
Shape local(ProgramBuilder const& builder, std::int64_t features) {
  return {builder.shape().local_sequence(), builder.shape().micro, features};
}

/// Gathers the whole tensor of which `shard` is this rank's part, into a communication buffer
/// unless it is kept.
TensorId gather(ProgramBuilder& builder,
                Name name,
                Name op,
                Phase phase,
                TensorId shard,
                std::int64_t features,
                Overlap overlap,
                Category category = Category::communication) {
  if (!builder.shape().sequence_parallel) return shard;
  TensorId const gathered = builder.make(name, whole(builder, features), builder.type(), category);
  builder.collective(OpKind::all_gather, op, phase, shard, gathered, gathered, overlap);
  return gathered;
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

void product(ProgramBuilder& builder, Linear const& linear, TensorId x, TensorId y) {
  builder.gemm({linear.owner, "forward"}, Phase::forward,
               {.batch = 1,
                .m = rows(builder),
                .n = width(builder, linear),
                .k = depth(builder, linear),
                .transpose_b = true},
               x, linear.weight, y);
}

void input_gradient(ProgramBuilder& builder, Linear const& linear, TensorId dy, TensorId dx) {
  builder.gemm(
      {linear.owner, "input_gradient"}, Phase::input_gradient,
      {.batch = 1, .m = rows(builder), .n = depth(builder, linear), .k = width(builder, linear)},
      dy, linear.weight, dx);
}

void weight_gradient(ProgramBuilder& builder, Linear const& linear, TensorId dy, TensorId x) {
  builder.gemm({linear.owner, "weight_gradient"}, Phase::weight_gradient,
               {.batch = 1,
                .m = width(builder, linear),
                .n = depth(builder, linear),
                .k = rows(builder),
                .transpose_a = true,
                .accumulate = true},
               dy, x, builder.gradient_of(linear.weight));
}

}  // namespace

TensorId output_weight(ProgramBuilder& builder, Name name, Shape const& shape) {
  ParameterTraits traits = cut_by_columns(builder.shape().tensor, shape);
  traits.start = ParameterStart::normal_output;
  return builder.parameter(name, shape, traits);
}

TensorId column_parallel_forward(ProgramBuilder& builder,
                                 Linear const& linear,
                                 TensorId x,
                                 Name y) {
  TensorId const gathered =
      gather(builder, {linear.owner, "gathered_input"}, {linear.owner, "all_gather"},
             Phase::forward, x, depth(builder, linear), Overlap::none);
  return column_product_forward(builder, linear, gathered, y);
}

TensorId gather_input(ProgramBuilder& builder, Linear const& linear, TensorId x) {
  return gather(builder, {linear.owner, "gathered_input"}, {linear.owner, "all_gather"},
                Phase::forward, x, depth(builder, linear), Overlap::none, Category::activations);
}

TensorId column_product_forward(ProgramBuilder& builder, Linear const& linear, TensorId x, Name y) {
  TensorId const result = builder.make(y, whole(builder, width(builder, linear)));
  product(builder, linear, x, result);
  return result;
}

TensorId column_product_backward(ProgramBuilder& builder,
                                 Linear const& linear,
                                 TensorId x,
                                 TensorId dy) {
  TensorId const partial =
      builder.make({linear.owner, "input_gradient"}, whole(builder, depth(builder, linear)));
  input_gradient(builder, linear, dy, partial);
  weight_gradient(builder, linear, dy, x);
  return partial;
}

TensorId sum_input_gradient(ProgramBuilder& builder, Linear const& linear, TensorId partial) {
  return reduce(builder, {linear.owner, "input_gradient_shard"}, linear.owner,
                Phase::input_gradient, partial, depth(builder, linear), Overlap::none);
}

TensorId column_parallel_backward(ProgramBuilder& builder,
                                  Linear const& linear,
                                  TensorId x,
                                  TensorId dy) {
  std::int64_t const features = depth(builder, linear);
  TensorId const gathered =
      gather(builder, {linear.owner, "regathered_input"}, {linear.owner, "all_gather_again"},
             Phase::weight_gradient, x, features, Overlap::behind_compute);
  TensorId const partial = builder.make({linear.owner, "input_gradient"}, whole(builder, features));
  input_gradient(builder, linear, dy, partial);
  TensorId const dx = reduce(builder, {linear.owner, "input_gradient_shard"}, linear.owner,
                             Phase::input_gradient, partial, features, Overlap::behind_compute);
  weight_gradient(builder, linear, dy, gathered);
  return dx;
}

TensorId row_parallel_forward(ProgramBuilder& builder, Linear const& linear, TensorId x, Name y) {
  TensorId const partial = builder.make(y, whole(builder, width(builder, linear)));
  product(builder, linear, x, partial);
  return reduce(builder, {linear.owner, "output_shard"}, linear.owner, Phase::forward, partial,
                width(builder, linear), Overlap::none);
}

TensorId row_parallel_backward(
    ProgramBuilder& builder, Linear const& linear, TensorId x, TensorId dy, Name dx) {
  return row_product_backward(builder, linear, x, gather_output_gradient(builder, linear, dy), dx);
}

TensorId gather_output_gradient(ProgramBuilder& builder, Linear const& linear, TensorId dy) {
  return gather(builder, {linear.owner, "gathered_gradient"}, {linear.owner, "all_gather_gradient"},
                Phase::input_gradient, dy, width(builder, linear), Overlap::none);
}

TensorId row_product_backward(
    ProgramBuilder& builder, Linear const& linear, TensorId x, TensorId dy, Name dx) {
  TensorId const result = builder.make(dx, whole(builder, depth(builder, linear)));
  input_gradient(builder, linear, dy, result);
  weight_gradient(builder, linear, dy, x);
  return result;
}

}  // namespace stagecraft
