#include "libsim/modules/blocks.hpp"

#include <utility>
#include <vector>

#include "libsim/modules/hidden_shapes.hpp"
#include "libsim/modules/transformer_layer.hpp"
#include "libsim/program/liveness.hpp"
#include "libsim/program/recompute.hpp"
#include "libsim/program/trim_quantisation.hpp"

namespace stagecraft {
namespace {

BlockProgram finish(ProgramBuilder& builder, RecomputePolicy const& policy) {
  BlockProgram block = std::move(builder.program());
  apply_recompute(block, policy, builder.shape());
  trim_quantisation(block);
  insert_waits(block);
  derive_liveness(block);
  return block;
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
  Shape const hidden = local_hidden(builder.shape());
  builder.begin(Pass::forward, "attention_norm", 0);
  program.input = builder.make({"attention_norm", "input"}, hidden);

  std::vector<TransformerLayer> stack;
  TensorId x = program.input;
  for (int i = 0; i < layers; ++i) {
    builder.begin(Pass::forward, "attention_norm", i);
    TransformerLayer& layer = stack.emplace_back(make_transformer_layer(builder));
    Name const y = i + 1 < layers ? Name{"layer", "output"} : Name{"block", "output"};
    x = layer_forward(builder, layer, i, x, y);
  }
  program.output = x;

  builder.begin(Pass::backward, "mlp_output", layers - 1);
  program.grad_output = builder.make({"block", "output_gradient"}, hidden);
  TensorId gradient = program.grad_output;
  for (int i = layers - 1; i >= 0; --i) {
    gradient = layer_backward(builder, stack[static_cast<std::size_t>(i)], i, gradient);
  }
  program.grad_input = gradient;
  return finish(builder, policy);
}

BlockProgram declare_layer(BlockShape const& shape) {
  ProgramBuilder builder{std::vector{shape}};
  make_transformer_layer(builder);
  return std::move(builder.program());
}

std::vector<BlockShape> head_shapes(BlockShape const& shape) {
  std::vector<BlockShape> shapes{shape};
  if (shape.model.predicted_tokens > 0) {
    shapes.resize(1 + static_cast<std::size_t>(shape.model.predicted_tokens),
                  shape.with(layer_kind(shape.model, shape.model.layers - 1)));
  }
  return shapes;
}

BlockProgram build_head(BlockShape const& shape, HeadWeight weight, RecomputePolicy const& policy) {
  return build_head(head_shapes(shape), weight, policy);
}

BlockProgram build_head(std::vector<BlockShape> shapes,
                        HeadWeight weight,
                        RecomputePolicy const& policy) {
  ProgramBuilder builder{BlockProgram::Kind::head, std::move(shapes)};
  write_head(builder, weight);
  return finish(builder, policy);
}

}  // namespace stagecraft
