#include <string_view>

#include "libsim/modules/attention/attention.hpp"
#include "libsim/modules/attention/core_attention.hpp"

namespace stagecraft {
namespace {

/// What an operand and its ops are called.
struct AttendedNames {
  std::string_view amax;
  std::string_view measure;
  std::string_view quantise;
  std::string_view low;
};

TensorId quantise_attended(ProgramBuilder& builder,
                           AttendedNames const& names,
                           Phase phase,
                           TensorId x,
                           ElementType type) {
  Quantisation const& quantisation = builder.shape().quantisation;
  TensorId amax = no_tensor;
  if (quantisation.traits().measures_first) {
    amax = builder.make({core_attention, names.amax}, {1}, ElementType::f32);
    builder.add(OpKind::measure_amax, {core_attention, names.measure}, phase, {x}, {amax});
  }
  Shape const shape = builder.tensor(x).shape;  // a copy: make() moves the tensors
  TensorId const made = builder.make({core_attention, names.low}, shape, type);
  builder.program().tensors.back().scales = {.recipe = quantisation.recipe,
                                             .bytes = element_size(ElementType::f32)};
  builder.add(OpKind::quantise, {core_attention, names.quantise}, phase, {x, amax}, {made},
              QuantiseAttributes{quantisation.recipe});
  return made;
}

}  // namespace

void quantise_heads(ProgramBuilder& builder, AttentionLayer& attention) {
  if (!builder.shape().quantisation.attends_low) return;
  auto const low = [&](AttendedNames const& names, TensorId x) {
    return quantise_attended(builder, names, Phase::forward, x, ElementType::f8_e4m3);
  };
  attention.low_q = low({"q_amax", "measure_q", "quantise_q", "low_q"}, attention.q);
  attention.low_k = low({"k_amax", "measure_k", "quantise_k", "low_k"}, attention.k);
  attention.low_v = low({"v_amax", "measure_v", "quantise_v", "low_v"}, attention.v);
}

TensorId quantise_context_gradient(ProgramBuilder& builder, TensorId d_context) {
  Quantisation const& quantisation = builder.shape().quantisation;
  if (!quantisation.attends_low) return d_context;
  // Gradients of a recipe in 4 bits have 8 here.
  bool const has_8 = element_bits(quantisation.gradients) == 8;
  return quantise_attended(builder,
                           {"context_gradient_amax", "measure_context_gradient",
                            "quantise_context_gradient", "low_context_gradient"},
                           Phase::input_gradient, d_context,
                           has_8 ? quantisation.gradients : ElementType::f8_e4m3);
}

}  // namespace stagecraft
