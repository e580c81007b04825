#include "libsim/modules/experts/experts.hpp"

#include "libsim/modules/experts/expert_products.hpp"
#include "libsim/modules/experts/expert_router.hpp"
#include "libsim/modules/experts/token_dispatch.hpp"
#include "libsim/modules/quantised_operands.hpp"

namespace stagecraft {
namespace {

void add_to(ProgramBuilder& builder, Name name, Phase phase, TensorId sum, TensorId part) {
  builder.add(OpKind::add, name, phase, {sum, part}, {sum});
}

bool has_shared(ProgramBuilder const& builder) {
  return builder.shape().model.experts->shared_ffn_hidden > 0;
}

/// Whether shared experts compute while tokens travel.
bool overlaps_shared(ProgramBuilder const& builder) {
  return has_shared(builder) && builder.shape().overlaps_shared;
}

/// What is sent of the tokens x, or of the gradients of what experts compute: the tensor itself, or
/// rows that shared experts read as well.
TensorId rows_to_send(ProgramBuilder& builder,
                      std::string_view module,
                      Pass pass,
                      int index,
                      TensorId x,
                      QuantisedRole role) {
  bool const shares = builder.shape().quantisation.shares_casts && has_shared(builder);
  if (!shares || overlaps_shared(builder)) return x;
  builder.begin(pass, module, index);
  Phase const phase = pass == Pass::forward ? Phase::forward : Phase::input_gradient;
  return quantise(builder, module, phase, x, {.role = role}).rows;
}

/// Appends a part of the shared experts among the ops of another module.
template <class Part>
Beside beside(ProgramBuilder& builder, Pass pass, std::string_view module, int index, Part part) {
  if (!overlaps_shared(builder)) return {};
  return [&builder, pass, module, index, part] {
    builder.begin(pass, "shared_experts", index);
    part();
    builder.begin(pass, module, index);
  };
}

}  // namespace

TensorId experts_forward(
    ProgramBuilder& builder, ExpertsLayer& layer, int index, TensorId x, Name y) {
  builder.begin(Pass::forward, "mlp_norm", index);
  layer.input = norm_forward(builder, layer.norm, x, {"experts", "input"});
  TensorId shared = no_tensor;
  bool const overlaps = overlaps_shared(builder);
  TensorId const sent_input =
      rows_to_send(builder, "dispatch", Pass::forward, index, layer.input, QuantisedRole::input);
  if (has_shared(builder) && !overlaps) {
    builder.begin(Pass::forward, "shared_experts", index);
    shared = shared_experts_forward(builder, layer.shared, layer.input, sent_input);
  }
  builder.begin(Pass::forward, "router", index);
  TensorId const probabilities = route_forward(builder, layer);
  if (overlaps) {
    builder.begin(Pass::forward, "shared_experts", index);
    shared_begin_forward(builder, layer.shared, layer.input);
  }
  builder.begin(Pass::forward, "dispatch", index);
  Dispatched const sent = dispatch_forward(builder, sent_input, probabilities, layer.map,
                                           beside(builder, Pass::forward, "dispatch", index, [&] {
                                             shared_first_half_forward(builder, layer.shared);
                                           }));
  layer.rows = sent.rows.rows;
  layer.row_probabilities = sent.rows.probabilities;
  layer.places = sent.places;
  TensorId const computed = expert_products_forward(builder, layer, index);
  builder.begin(Pass::forward, "combine", index);
  TensorId const combined = combine_forward(
      builder, computed, layer.places, beside(builder, Pass::forward, "combine", index, [&] {
        shared = shared_second_half_forward(builder, layer.shared);
      }));
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
  bool const overlaps = overlaps_shared(builder);
  TensorId const d_sent =
      rows_to_send(builder, "combine", Pass::backward, index, d_combined, QuantisedRole::gradient);
  SharedGradients of_shared;
  if (overlaps) {
    builder.begin(Pass::backward, "shared_experts", index);
    of_shared = shared_begin_backward(builder, layer.shared, d_combined);
  }
  builder.begin(Pass::backward, "combine", index);
  TensorId const d_computed = combine_backward(
      builder, d_sent, layer.places, beside(builder, Pass::backward, "combine", index, [&] {
        shared_second_half_backward(builder, layer.shared, of_shared);
      }));
  RowTensors const d_rows = expert_products_backward(builder, layer, index, d_computed);
  builder.begin(Pass::backward, "dispatch", index);
  TokenGradients const d_tokens = dispatch_backward(
      builder, d_rows, layer.places, layer.input,
      beside(builder, Pass::backward, "dispatch", index,
             [&] { shared_first_half_backward(builder, layer.shared, of_shared); }));
  builder.begin(Pass::backward, "router", index);
  TensorId const d_routed = route_backward(builder, layer, d_tokens.probabilities);
  TensorId const d_input = d_tokens.x;
  add_to(builder, {"router", "add_input_gradient"}, Phase::input_gradient, d_input, d_routed);
  if (has_shared(builder)) {
    builder.begin(Pass::backward, "shared_experts", index);
    TensorId const d_shared =
        overlaps ? shared_end_backward(builder, layer.shared, of_shared)
                 : shared_experts_backward(builder, layer.shared, d_combined, d_sent);
    add_to(builder, {"shared_experts", "add_input_gradient"}, Phase::input_gradient, d_input,
           d_shared);
  }
  builder.begin(Pass::backward, "mlp_norm", index);
  TensorId const dx = norm_backward(builder, layer.norm, d_input);
  add_to(builder, {"mlp_norm", "residual_gradient"}, Phase::input_gradient, dx, dy);
  return dx;
}

}  // namespace stagecraft
