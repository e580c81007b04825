#include "libsim/modules/attention/core_attention.hpp"

namespace stagecraft {
namespace {

FlashAttributes attributes_of(ProgramBuilder const& builder,
                              FlashOperands const& operands,
                              AttentionPart const& part) {
  return {.scale = score_scale(builder),
          .dropout = probability_dropout(builder),
          .window = builder.shape().model.window,
          .softcap = builder.shape().model.attention_softcap,
          .part = part,
          .is_low = is_quantised(builder.tensor(operands.q).type)};
}

/// Twice the number of pairs of a query and a key that it sees, per head.
std::int64_t twice_the_pairs(AttentionPart const& part,
                             std::int64_t queries,
                             std::int64_t keys,
                             std::int64_t window) {
  switch (part.kind) {
    case AttentionPart::Kind::whole:
      return attended_square(queries, window);
    case AttentionPart::Kind::ring_step:
      return queries * keys;
    case AttentionPart::Kind::contiguous_step:
      return (part.index == 0 ? 1 : 2) * queries * keys;
    case AttentionPart::Kind::gathered_chunk:
      break;
  }
  return attended_square(keys, window) / keys * queries;
}

/// FLOPs of products over these pairs, whose inner or outer dimensions add up to `depth`.
std::int64_t attended_flops(ProgramBuilder& builder,
                            FlashOperands const& operands,
                            AttentionPart const& part,
                            std::int64_t depth) {
  Shape const& q = builder.tensor(operands.q).shape;
  std::int64_t const keys = builder.tensor(operands.k).shape[0];
  return q[1] * q[2] * twice_the_pairs(part, q[0], keys, builder.shape().model.window) * depth;
}

}  // namespace

TensorId make_log_sums(ProgramBuilder& builder, TensorId q, std::string_view name) {
  Shape const rows = builder.tensor(q).shape;  // a copy: make() moves the tensors
  return builder.make({core_attention, name}, {rows[1], rows[2], rows[0]},
                      accumulation_type(builder.shape().model.precision));
}

QkvGradients make_gradients(ProgramBuilder& builder, FlashOperands const& operands) {
  auto const like = [&](TensorId tensor, std::string_view name) {
    Shape const shape = builder.tensor(tensor).shape;
    return builder.make({core_attention, name}, shape);
  };
  return {.q = like(operands.q, "q_gradient"),
          .k = like(operands.k, "k_gradient"),
          .v = like(operands.v, "v_gradient")};
}

void flash_forward(ProgramBuilder& builder,
                   FlashOperands const& operands,
                   AttentionPart const& part) {
  std::int64_t const d = builder.tensor(operands.q).shape[3];
  std::int64_t const value_d = builder.tensor(operands.v).shape[3];
  Op& op =
      builder.add(OpKind::flash_attention, {core_attention, "flash"}, Phase::forward,
                  {operands.q, operands.k, operands.v, operands.sinks},
                  {operands.context, operands.log_sum_exp}, attributes_of(builder, operands, part));
  op.flops = attended_flops(builder, operands, part, d + value_d);  // scores, context
  op.draws_random = drops_probabilities(builder);
}

void flash_backward(ProgramBuilder& builder,
                    FlashOperands const& operands,
                    TensorId d_context,
                    QkvGradients const& gradients,
                    AttentionPart const& part) {
  std::int64_t const d = builder.tensor(operands.q).shape[3];
  std::int64_t const value_d = builder.tensor(operands.v).shape[3];
  Op& op = builder.add(
      OpKind::flash_attention_backward, {core_attention, "flash_backward"}, Phase::input_gradient,
      {d_context, operands.q, operands.k, operands.v, operands.context, operands.log_sum_exp},
      {gradients.q, gradients.k, gradients.v}, attributes_of(builder, operands, part));
  // Five products; one of them computes the scores again.
  op.flops = attended_flops(builder, operands, part, 3 * d + 2 * value_d);
  op.draws_random = drops_probabilities(builder);  // masks are always drawn again
  if (operands.sinks == no_tensor) return;
  Op& sinks =
      builder.add(OpKind::sinks_gradient, {core_attention, "sinks_gradient"}, Phase::input_gradient,
                  {d_context, operands.context, operands.log_sum_exp, operands.sinks},
                  {builder.gradient_of(operands.sinks)});
  // The op before has computed the products of the context and its gradient.
  sinks.traffic = builder.tensor(operands.log_sum_exp).bytes();
}

}  // namespace stagecraft
