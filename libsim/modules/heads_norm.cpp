#include "libsim/modules/heads_norm.hpp"

namespace stagecraft {
namespace {

HeadsNormAttributes attributes_of(ProgramBuilder const& builder, HeadsNorm const& norm) {
  return {.epsilon = builder.shape().model.norm_epsilon, .across_heads = norm.across_heads};
}

}  // namespace

void make_heads_norm(ProgramBuilder& builder,
                     HeadsNorm& norm,
                     std::int64_t width,
                     std::optional<GroupId> gradient_sum) {
  ParameterTraits traits = replicated(builder.shape().tensor, {width}, gradient_sum);
  traits.start = ParameterStart::one;
  norm.weight = builder.parameter({norm.owner, "weight"}, {width}, traits);
}

void heads_norm_forward(ProgramBuilder& builder, HeadsNorm& norm, TensorId x, TensorId y) {
  Shape const heads = builder.tensor(x).shape;  // a copy: make() moves the tensors
  std::int64_t const tokens = heads[0] * heads[1];
  norm.input = x;
  norm.statistics =
      builder.make({norm.owner, "statistics"}, {1, norm.across_heads ? tokens : tokens * heads[2]},
                   accumulation_type(builder.shape().model.precision));
  builder.add(OpKind::heads_norm, {norm.owner, "forward"}, Phase::forward, {x, norm.weight},
              {y, norm.statistics}, attributes_of(builder, norm));
}

void heads_norm_backward(ProgramBuilder& builder, HeadsNorm const& norm, TensorId dy, TensorId dx) {
  builder.add(OpKind::heads_norm_weight_gradient, {norm.owner, "weight_gradient"},
              Phase::weight_gradient, {dy, norm.input, norm.statistics},
              {builder.gradient_of(norm.weight)}, attributes_of(builder, norm));
  builder.add(OpKind::heads_norm_backward, {norm.owner, "input_gradient"}, Phase::input_gradient,
              {dy, norm.input, norm.statistics, norm.weight}, {dx}, attributes_of(builder, norm));
}

}  // namespace stagecraft
