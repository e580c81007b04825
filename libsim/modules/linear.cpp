#include "libsim/modules/linear.hpp"

namespace stagecraft {
namespace {

std::int64_t width(ProgramBuilder const& builder, Linear const& linear) {
  return builder.tensor(linear.weight).shape[0];
}
std::int64_t depth(ProgramBuilder const& builder, Linear const& linear) {
  return builder.tensor(linear.weight).shape[1];
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
  Tensor const part = builder.tensor(shard);  // a copy: make() moves the tensors
  TensorId const gathered = builder.make(name, whole(builder, features), part.type, category);
  // One scale is the same on all ranks; blocks have scales of their own.
  bool const has_one = part.scale_bytes <= element_size(ElementType::f32);
  builder.program().tensors.back().scale_bytes =
      has_one ? part.scale_bytes : part.scale_bytes * builder.shape().tensor;
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

bool keeps_high_gradients(ProgramBuilder const& builder) {
  return builder.shape().quantisation.keeps_high_gradients;
}

/// What the products of a backward read: dy and the weight along the rows of dy, dy and x along
/// their columns.
struct BackwardOperands {
  TensorId dy = no_tensor;
  TensorId weight = no_tensor;
  TensorId dy_by_columns = no_tensor;
};

/// Rows of a product's operand: s b, or s/t b of a rank's own.
std::int64_t rows_of(ProgramBuilder const& builder, TensorId x) {
  Shape const& shape = builder.tensor(x).shape;
  return shape[0] * shape[1];
}

void product(ProgramBuilder& builder, Linear const& linear, TensorId x, TensorId y) {
  builder.gemm({linear.owner, "forward"}, Phase::forward,
               {.batch = 1,
                .m = rows_of(builder, x),
                .n = width(builder, linear),
                .k = depth(builder, linear),
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
                .n = depth(builder, linear),
                .k = width(builder, linear)},
               operands.dy, operands.weight, dx);
}

void weight_gradient(ProgramBuilder& builder,
                     Linear const& linear,
                     BackwardOperands const& operands,
                     TensorId x) {
  builder.gemm({linear.owner, "weight_gradient"}, Phase::weight_gradient,
               {.batch = 1,
                .m = width(builder, linear),
                .n = depth(builder, linear),
                .k = rows_of(builder, x),
                .transpose_a = true,
                .accumulate = true},
               operands.dy_by_columns, x, builder.gradient_of(linear.weight));
}

BackwardOperands high_operands(Linear const& linear, TensorId dy) {
  return {.dy = dy, .weight = linear.weight, .dy_by_columns = dy};
}

/// `high` is the gradient in 16 bits, which the gradient of the weight reads if that stays high.
BackwardOperands low_operands(ProgramBuilder const& builder,
                              Linear const& linear,
                              Quantised const& dy,
                              TensorId high) {
  return {.dy = dy.rows,
          .weight = linear.low.weight.by_columns(),
          .dy_by_columns = keeps_high_gradients(builder) ? high : dy.by_columns()};
}

/// Makes the copies of the weight and, unless it comes quantised, of the input, which ranks gather
/// if `is_gathered`.
void quantise_forward(ProgramBuilder& builder, Linear& linear, TensorId x, bool is_gathered) {
  linear.low.weight = kept_copies(builder, linear.owner, linear.weight);
  linear.low.input = {.rows = x};
  if (is_quantised(builder.tensor(x).type)) return;
  linear.low.input = quantise(builder, linear.owner, Phase::forward, x,
                              {.role = QuantisedRole::input, .is_gathered = is_gathered});
}

/// What the product for the gradient of the weight reads of the input x.
TensorId input_by_columns(ProgramBuilder& builder, Linear const& linear, TensorId x) {
  if (keeps_high_gradients(builder)) return x;
  return columns_of(builder, linear.owner, QuantisedRole::input, linear.low.input);
}

BackwardOperands quantise_backward(ProgramBuilder& builder, Linear const& linear, TensorId dy) {
  Quantised const low =
      quantise(builder, linear.owner, Phase::input_gradient, dy, {.role = QuantisedRole::gradient});
  return low_operands(builder, linear, low, dy);
}

/// The input x of a column-parallel layer, as its weight's gradient reads it: quantised, unless
/// that stays high.
TensorId gather_again(ProgramBuilder& builder, Linear const& linear, TensorId x) {
  Quantised const& input = linear.low.input;
  bool const low = is_low(builder, linear) && !keeps_high_gradients(builder);
  if (low && !builder.shape().sequence_parallel) return input_by_columns(builder, linear, x);
  bool const is_by_rows = low && builder.shape().quantisation.is_per_tensor();
  TensorId const shard = !low ? x : is_by_rows ? input.rows : input.by_columns();
  return gather(builder, {linear.owner, "regathered_input"}, {linear.owner, "all_gather_again"},
                Phase::weight_gradient, shard, depth(builder, linear), Overlap::behind_compute);
}

/// The quantised gradient of a row-parallel layer's output, gathered: in both directions, if the
/// blocks of one are not those of the other.
BackwardOperands gather_gradient(ProgramBuilder& builder, Linear const& linear, TensorId dy) {
  if (keeps_high_gradients(builder)) {
    return quantise_backward(builder, linear, gather_output_gradient(builder, linear, dy));
  }
  bool const is_gathered = builder.shape().sequence_parallel;
  Quantised gradient = quantise(builder, linear.owner, Phase::input_gradient, dy,
                                {.role = QuantisedRole::gradient, .is_gathered = is_gathered});
  if (!is_gathered) return low_operands(builder, linear, gradient, dy);
  std::int64_t const features = width(builder, linear);
  gradient.rows =
      gather(builder, {linear.owner, "gathered_gradient"}, {linear.owner, "all_gather_gradient"},
             Phase::input_gradient, gradient.rows, features, Overlap::none);
  if (builder.shape().quantisation.is_per_tensor()) {
    gradient.columns =
        transposed(builder, {linear.owner, "transposed_gradient"},
                   {linear.owner, "transpose_gradient"}, Phase::input_gradient, gradient.rows);
  } else {
    gradient.columns =
        gather(builder, {linear.owner, "gathered_columns"}, {linear.owner, "all_gather_columns"},
               Phase::input_gradient, gradient.columns, features, Overlap::none);
  }
  return low_operands(builder, linear, gradient, dy);
}

/// Appends the products of a row-parallel layer's backward. Returns dx.
TensorId row_products(ProgramBuilder& builder,
                      Linear const& linear,
                      TensorId x,
                      BackwardOperands const& operands,
                      Name dx) {
  TensorId const result = builder.make(dx, whole(builder, depth(builder, linear)));
  input_gradient(builder, linear, operands, result);
  weight_gradient(builder, linear, operands, x);
  return result;
}

}  // namespace

bool is_low(ProgramBuilder const& builder, Linear const& linear) {
  return builder.shape().quantisation.is_on() && !linear.stays_high;
}

TensorId output_weight(ProgramBuilder& builder, Name name, Shape const& shape) {
  ParameterTraits traits = cut_by_columns(builder.shape().tensor, shape);
  traits.start = ParameterStart::normal_output;
  return builder.parameter(name, shape, traits);
}

TensorId column_parallel_forward(ProgramBuilder& builder, Linear& linear, TensorId x, Name y) {
  if (is_low(builder, linear)) {
    quantise_forward(builder, linear, x, builder.shape().sequence_parallel);
    x = linear.low.input.rows;
  }
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
  BackwardOperands const operands = high_operands(linear, dy);
  input_gradient(builder, linear, operands, partial);
  weight_gradient(builder, linear, operands, x);
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
  bool const low = is_low(builder, linear);
  BackwardOperands const operands =
      low ? quantise_backward(builder, linear, dy) : high_operands(linear, dy);
  TensorId input = gather_again(builder, linear, x);
  TensorId const partial = builder.make({linear.owner, "input_gradient"}, whole(builder, features));
  input_gradient(builder, linear, operands, partial);
  TensorId const dx = reduce(builder, {linear.owner, "input_gradient_shard"}, linear.owner,
                             Phase::input_gradient, partial, features, Overlap::behind_compute);
  bool const is_gathered_by_rows = low && !keeps_high_gradients(builder) &&
                                   builder.shape().sequence_parallel &&
                                   builder.shape().quantisation.is_per_tensor();
  if (is_gathered_by_rows) {
    input = transposed(builder, {linear.owner, "transposed_input"},
                       {linear.owner, "transpose_input"}, Phase::weight_gradient, input);
  }
  weight_gradient(builder, linear, operands, input);
  return dx;
}

TensorId row_parallel_forward(ProgramBuilder& builder, Linear& linear, TensorId x, Name y) {
  if (is_low(builder, linear)) {
    quantise_forward(builder, linear, x, false);
    x = linear.low.input.rows;
  }
  TensorId const partial = builder.make(y, whole(builder, width(builder, linear)));
  product(builder, linear, x, partial);
  return reduce(builder, {linear.owner, "output_shard"}, linear.owner, Phase::forward, partial,
                width(builder, linear), Overlap::none);
}

TensorId row_parallel_backward(
    ProgramBuilder& builder, Linear const& linear, TensorId x, TensorId dy, Name dx) {
  if (!is_low(builder, linear)) {
    return row_product_backward(builder, linear, x, gather_output_gradient(builder, linear, dy),
                                dx);
  }
  BackwardOperands const operands = gather_gradient(builder, linear, dy);
  bool const is_made = linear.quantises_again && !keeps_high_gradients(builder);
  TensorId const input = is_made ? quantise(builder, linear.owner, Phase::weight_gradient, x,
                                            {.role = QuantisedRole::input_again})
                                       .by_columns()
                                 : input_by_columns(builder, linear, x);
  return row_products(builder, linear, input, operands, dx);
}

TensorId gather_output_gradient(ProgramBuilder& builder, Linear const& linear, TensorId dy) {
  return gather(builder, {linear.owner, "gathered_gradient"}, {linear.owner, "all_gather_gradient"},
                Phase::input_gradient, dy, width(builder, linear), Overlap::none);
}

TensorId row_product_backward(
    ProgramBuilder& builder, Linear const& linear, TensorId x, TensorId dy, Name dx) {
  return row_products(builder, linear, x, high_operands(linear, dy), dx);
}

TensorId own_rows_forward(ProgramBuilder& builder, Linear& linear, TensorId x, Name y) {
  TensorId const result = builder.make(y, local(builder, width(builder, linear)));
  if (is_low(builder, linear)) {
    quantise_forward(builder, linear, x, false);
    x = linear.low.input.rows;
  }
  product(builder, linear, x, result);
  return result;
}

TensorId own_rows_backward(ProgramBuilder& builder, Linear const& linear, TensorId x, TensorId dy) {
  bool const low = is_low(builder, linear);
  TensorId const dx =
      builder.make({linear.owner, "input_gradient"}, local(builder, depth(builder, linear)));
  BackwardOperands const operands =
      low ? quantise_backward(builder, linear, dy) : high_operands(linear, dy);
  input_gradient(builder, linear, operands, dx);
  weight_gradient(builder, linear, operands, low ? input_by_columns(builder, linear, x) : x);
  return dx;
}

}  // namespace stagecraft
