#include "libsim/modules/linear_operands.hpp"

namespace stagecraft {
namespace {

Quantisation const& quantisation_of(ProgramBuilder const& builder) {
  return builder.shape().quantisation;
}

/// Whether the product for the gradient of the weight is quantised.
bool sums_low(ProgramBuilder const& builder, Linear const& linear) {
  return is_low(builder, linear) && !quantisation_of(builder).keeps_high_gradients;
}

/// Whether ranks gather what they have quantised.
bool gathers_low(ProgramBuilder const& builder, Linear const& linear) {
  return is_low(builder, linear) && !quantisation_of(builder).gathers_high;
}

/// Whether backward casts the input, of which it has 16 bits.
bool casts_input(ProgramBuilder const& builder, Linear const& linear) {
  return sums_low(builder, linear) && quantisation_of(builder).keeps_high_inputs;
}

/// The copies of the weight that forward reads.
Quantised forward_weight(ProgramBuilder& builder, Linear const& linear) {
  Quantisation const& quantisation = quantisation_of(builder);
  if (!quantisation.casts_weights) return kept_copies(builder, linear.owner, linear.weight);
  if (quantisation.has_low_units) return gathered_copy(builder, linear.owner, linear.weight);
  return quantise(builder, linear.owner, Phase::forward, linear.weight,
                  {.role = QuantisedRole::weight, .copies = QuantisedCopies::rows});
}

/// What the product for the gradient of the input reads of the weight.
TensorId columns_of_weight(ProgramBuilder& builder, Linear const& linear) {
  Quantisation const& quantisation = quantisation_of(builder);
  Quantised const& weight = linear.low.weight;
  if (!quantisation.casts_weights) return weight_by_columns(builder, linear.owner, weight);
  if (quantisation.has_low_units) {
    return transposed(builder, {linear.owner, "weight_columns"}, {linear.owner, "transpose_weight"},
                      Phase::input_gradient, weight.rows);
  }
  return quantise(builder, linear.owner, Phase::input_gradient, linear.weight,
                  {.role = QuantisedRole::weight_again,
                   .copies = QuantisedCopies::columns,
                   .amax = weight.amax})
      .by_columns();
}

/// Makes the copies of the input, unless it comes quantised.
TensorId quantised_input(ProgramBuilder& builder, Linear& linear, TensorId x, bool is_gathered) {
  linear.low.input = {.rows = x};
  if (is_quantised(builder.tensor(x).type)) return x;
  bool const is_of_forward = quantisation_of(builder).keeps_high_inputs;
  linear.low.input =
      quantise(builder, linear.owner, Phase::forward, x,
               {.role = QuantisedRole::input,
                .is_gathered = is_gathered,
                .follows_norm = linear.has_norm && !quantisation_of(builder).casts_weights,
                .copies = is_of_forward ? QuantisedCopies::rows : QuantisedCopies::both});
  return linear.low.input.rows;
}

/// `high` is the gradient in 16 bits, which the gradient of the weight reads if that stays high.
BackwardOperands low_operands(ProgramBuilder& builder,
                              Linear const& linear,
                              Quantised const& dy,
                              TensorId high) {
  return {.dy = dy.rows,
          .weight = columns_of_weight(builder, linear),
          .dy_by_columns = sums_low(builder, linear) ? dy.by_columns() : high};
}

QuantiseRequest of_gradient(ProgramBuilder const& builder, Linear const& linear, bool is_gathered) {
  return {.role = QuantisedRole::gradient,
          .is_gathered = is_gathered,
          .copies = sums_low(builder, linear) ? QuantisedCopies::both : QuantisedCopies::rows};
}

}  // namespace

bool is_low(ProgramBuilder const& builder, Linear const& linear) {
  return builder.shape().quantisation.is_on() && !linear.stays_high;
}

std::int64_t width_of(ProgramBuilder const& builder, Linear const& linear) {
  return builder.tensor(linear.weight).shape[0];
}
std::int64_t depth_of(ProgramBuilder const& builder, Linear const& linear) {
  return builder.tensor(linear.weight).shape[1];
}
Shape whole_rows(ProgramBuilder const& builder, std::int64_t features) {
  return {builder.shape().sequence(), builder.shape().micro, features};
}

TensorId gather_rows(ProgramBuilder& builder,
                     Name name,
                     Name op,
                     Phase phase,
                     TensorId shard,
                     std::int64_t features,
                     Overlap overlap,
                     Category category) {
  if (!builder.shape().sequence_parallel) return shard;
  Tensor const part = builder.tensor(shard);  // a copy: make() moves the tensors
  TensorId const gathered = builder.make(name, whole_rows(builder, features), part.type, category);
  // One scale is the same on all ranks; blocks have scales of their own.
  ScaleLayout& scales = builder.program().tensors.back().scales = part.scales;
  if (scales.recipe != Recipe::none && blocks_of(scales).along > 0) {
    scales.segments *= builder.shape().tensor;
    scales.bytes *= builder.shape().tensor;
  }
  builder.collective(OpKind::all_gather, op, phase, shard, gathered, gathered, overlap);
  return gathered;
}

TensorId forward_input(ProgramBuilder& builder, Linear& linear, TensorId x, bool is_gathered) {
  bool const is_shared = is_gathered && builder.shape().sequence_parallel;
  bool const low = is_low(builder, linear);
  if (low) linear.low.weight = forward_weight(builder, linear);
  bool const is_first = low && (!is_shared || gathers_low(builder, linear));
  if (is_first) x = quantised_input(builder, linear, x, is_shared);
  if (is_gathered) {
    x = gather_rows(builder, {linear.owner, "gathered_input"}, {linear.owner, "all_gather"},
                    Phase::forward, x, depth_of(builder, linear), Overlap::none);
  }
  return low && !is_first ? quantised_input(builder, linear, x, false) : x;
}

TensorId gather_output_gradient(ProgramBuilder& builder, Linear const& linear, TensorId dy) {
  return gather_rows(builder, {linear.owner, "gathered_gradient"},
                     {linear.owner, "all_gather_gradient"}, Phase::input_gradient, dy,
                     width_of(builder, linear), Overlap::none);
}

BackwardOperands high_operands(Linear const& linear, TensorId dy) {
  return {.dy = dy, .weight = linear.weight, .dy_by_columns = dy};
}

BackwardOperands backward_operands(ProgramBuilder& builder, Linear const& linear, TensorId dy) {
  if (!is_low(builder, linear)) return high_operands(linear, dy);
  Quantised const low = quantise(builder, linear.owner, Phase::input_gradient, dy,
                                 of_gradient(builder, linear, false));
  return low_operands(builder, linear, low, dy);
}

BackwardOperands gathered_operands(ProgramBuilder& builder, Linear const& linear, TensorId dy) {
  if (!sums_low(builder, linear) || !gathers_low(builder, linear)) {
    return backward_operands(builder, linear, gather_output_gradient(builder, linear, dy));
  }
  if (is_quantised(builder.tensor(dy).type)) {
    Quantised made{.rows = dy};
    made.columns = columns_of(builder, linear.owner, QuantisedRole::gradient, made);
    return low_operands(builder, linear, made, dy);
  }
  bool const is_gathered = builder.shape().sequence_parallel;
  Quantised gradient = quantise(builder, linear.owner, Phase::input_gradient, dy,
                                of_gradient(builder, linear, is_gathered));
  if (!is_gathered) return low_operands(builder, linear, gradient, dy);
  std::int64_t const features = width_of(builder, linear);
  gradient.rows = gather_rows(builder, {linear.owner, "gathered_gradient"},
                              {linear.owner, "all_gather_gradient"}, Phase::input_gradient,
                              gradient.rows, features, Overlap::none);
  if (builder.shape().quantisation.is_per_tensor()) {
    gradient.columns =
        transposed(builder, {linear.owner, "transposed_gradient"},
                   {linear.owner, "transpose_gradient"}, Phase::input_gradient, gradient.rows);
  } else {
    gradient.columns = gather_rows(builder, {linear.owner, "gathered_columns"},
                                   {linear.owner, "all_gather_columns"}, Phase::input_gradient,
                                   gradient.columns, features, Overlap::none);
  }
  return low_operands(builder, linear, gradient, dy);
}

TensorId input_by_columns(ProgramBuilder& builder, Linear const& linear, TensorId x) {
  if (!sums_low(builder, linear)) return x;
  bool const is_cast = casts_input(builder, linear);
  if (linear.casts_back) {
    Shape const shape = builder.tensor(x).shape;  // a copy: make() moves the tensors
    TensorId const back = builder.make({linear.owner, "input_again"}, shape);
    builder.add(OpKind::dequantise, {linear.owner, "cast_back_input"}, Phase::weight_gradient,
                {linear.low.input.rows}, {back});
    return quantise(builder, linear.owner, Phase::weight_gradient, back,
                    {.role = QuantisedRole::input_again, .copies = QuantisedCopies::columns})
        .by_columns();
  }
  if (!is_cast && !linear.quantises_again) {
    return columns_of(builder, linear.owner, QuantisedRole::input, linear.low.input);
  }
  return quantise(builder, linear.owner, Phase::weight_gradient, x,
                  {.role = QuantisedRole::input_again,
                   .copies = QuantisedCopies::columns,
                   .amax = is_cast ? linear.low.input.amax : no_tensor})
      .by_columns();
}

TensorId gather_again(ProgramBuilder& builder, Linear const& linear, TensorId x) {
  Quantised const& input = linear.low.input;
  bool const low = sums_low(builder, linear) && !casts_input(builder, linear);
  if (low && !builder.shape().sequence_parallel) return input_by_columns(builder, linear, x);
  bool const is_by_rows = low && quantisation_of(builder).is_per_tensor();
  TensorId const shard = !low ? x : is_by_rows ? input.rows : input.by_columns();
  // What is cast again is cast in the first pass of a split backward, and gathered before.
  Phase const phase = casts_input(builder, linear) ? Phase::input_gradient : Phase::weight_gradient;
  return gather_rows(builder, {linear.owner, "regathered_input"},
                     {linear.owner, "all_gather_again"}, phase, shard, depth_of(builder, linear),
                     Overlap::behind_compute);
}

TensorId gathered_by_columns(ProgramBuilder& builder, Linear const& linear, TensorId gathered) {
  if (casts_input(builder, linear)) return input_by_columns(builder, linear, gathered);
  bool const is_by_rows = sums_low(builder, linear) && builder.shape().sequence_parallel &&
                          quantisation_of(builder).is_per_tensor();
  if (!is_by_rows) return gathered;
  return transposed(builder, {linear.owner, "transposed_input"}, {linear.owner, "transpose_input"},
                    Phase::weight_gradient, gathered);
}

}  // namespace stagecraft
