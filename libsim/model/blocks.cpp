#include "libsim/model/blocks.hpp"

#include <optional>
#include <utility>
#include <vector>

#include "libsim/model/attention.hpp"
#include "libsim/model/experts.hpp"
#include "libsim/model/liveness.hpp"
#include "libsim/model/mlp.hpp"
#include "libsim/model/recompute.hpp"

namespace stagecraft {
namespace {

BlockProgram finish(ProgramBuilder& builder, RecomputePolicy const& policy) {
  BlockProgram block = std::move(builder.program());
  apply_recompute(block, policy, builder.shape());
  insert_waits(block);
  derive_liveness(block);
  return block;
}

Shape hidden_state(BlockShape const& shape) {
  return {shape.local_sequence(), shape.micro, shape.model.hidden};
}

}  // namespace

BlockProgram build_inputs(BlockShape const& shape) {
  ProgramBuilder builder{BlockProgram::Kind::inputs, shape};
  write_inputs(builder);
  return finish(builder, {});
}

BlockProgram build_embedding(BlockShape const& shape) {
  ProgramBuilder builder{BlockProgram::Kind::embedding, shape};
  write_embedding(builder);
  return finish(builder, {});
}

BlockProgram build_layers(BlockShape const& shape, int layers, RecomputePolicy const& policy) {
  return build_layers(std::vector(static_cast<std::size_t>(layers), shape), policy);
}

BlockProgram build_layers(std::vector<BlockShape> shapes, RecomputePolicy const& policy) {
  ProgramBuilder builder{std::move(shapes)};
  BlockProgram& program = builder.program();
  program.policy = policy;
  int const layers = program.layers;
  Shape const hidden = hidden_state(builder.shape());
  builder.begin(Pass::forward, "attention_norm", 0);
  program.input = builder.make({"attention_norm", "input"}, hidden);

  struct Layer {
    AttentionLayer attention;
    std::optional<MlpLayer> mlp{};  ///< of a dense layer
    std::optional<ExpertsLayer> experts{};
  };
  std::vector<Layer> stack;
  TensorId x = program.input;
  for (int i = 0; i < layers; ++i) {
    builder.begin(Pass::forward, "attention_norm", i);
    Layer& layer = stack.emplace_back(Layer{make_attention(builder)});
    if (builder.shape().model.experts) {
      layer.experts = make_experts(builder);
    } else {
      layer.mlp = make_mlp(builder);
    }
    bool const is_parallel = builder.shape().model.residual != Residual::sequential;
    TensorId const sum =
        attention_forward(builder, layer.attention, i, x,
                          is_parallel ? Name{"mlp.output", "residual"} : Name{"mlp_norm", "input"});
    MlpInputs const inputs{
        .x = is_parallel ? x : sum, .normed = layer.attention.input, .residual = sum};
    Name const y = i + 1 < layers ? Name{"layer", "output"} : Name{"block", "output"};
    x = layer.experts ? experts_forward(builder, *layer.experts, i, sum, y)
                      : mlp_forward(builder, *layer.mlp, i, inputs, y);
  }
  program.output = x;

  builder.begin(Pass::backward, "mlp_output", layers - 1);
  program.grad_output = builder.make({"block", "output_gradient"}, hidden);
  TensorId gradient = program.grad_output;
  for (int i = layers - 1; i >= 0; --i) {
    Layer const& layer = stack[static_cast<std::size_t>(i)];
    TensorId const d_mlp = layer.experts ? experts_backward(builder, *layer.experts, i, gradient)
                                         : mlp_backward(builder, *layer.mlp, i, gradient);
    AttentionGradients gradients{.dy = d_mlp, .elsewhere = d_mlp};
    Residual const residual = builder.shape().model.residual;
    if (residual == Residual::parallel) gradients.dy = gradient;
    if (residual == Residual::parallel_one_norm) {
      gradients = {.dy = gradient, .elsewhere = gradient, .normed = d_mlp};
    }
    gradient = attention_backward(builder, layer.attention, i, gradients);
  }
  program.grad_input = gradient;
  return finish(builder, policy);
}

BlockProgram declare_layer(BlockShape const& shape) {
  ProgramBuilder builder{std::vector{shape}};
  make_attention(builder);
  if (shape.model.experts) {
    make_experts(builder);
  } else {
    make_mlp(builder);
  }
  return std::move(builder.program());
}

BlockProgram build_head(BlockShape const& shape, HeadWeight weight) {
  ProgramBuilder builder{BlockProgram::Kind::head, shape};
  write_head(builder, weight);
  return finish(builder, {});
}

}  // namespace stagecraft
