#pragma once

#include <algorithm>
#include <cstdint>

#include "libsim/plan/make_plan.hpp"
#include "libsim/plan/plan_outline.hpp"
#include "tests/libsim/paper_models.hpp"

/// A small run in 8 bits, and what it keeps.
namespace stagecraft::low_runs {

constexpr std::int64_t h = 4096;
constexpr std::int64_t tokens = 2048;

/// Two dense layers as Llama's: f = 3.5 h, h / 8 keys and values, flash attention, no biases. The
/// positions are learned, so that no rotated copies of queries and keys are kept.
inline TrainingConfig llama_run(Recipe recipe, bool is_blackwell = false) {
  TrainingConfig config;
  ModelConfig& model = config.model = gpt(2, h, 32, tokens, 1024);
  model.kv_heads = 4;
  model.ffn_hidden = 7 * h / 2;
  model.activation = Activation::swiglu;
  model.norm = Norm::rmsnorm;
  model.biases = false;
  model.dropout = 0;
  model.attention = Attention::flash;
  model.causal_mask = CausalMask::none;
  model.precision = Precision::bf16;
  config.low_precision.recipe = recipe;
  config.stack.sums_along_rows = !is_blackwell;
  return config;
}

inline BlockProgram const& layer_of(TrainingPlan const& plan) {
  return *std::ranges::find(plan.programs.blocks, BlockProgram::Kind::layers, &BlockProgram::kind);
}

/// Bytes kept for backward per token, without what does not grow with h: statistics of norms and
/// of attention, scales.
inline double saved_per_token(TrainingConfig const& config) {
  TrainingPlan const plan = make_plan(as_settled(config));
  BlockProgram const& block = layer_of(plan);
  std::int64_t sum = 0;
  for (BufferLife const& life : block.lives) {
    Tensor const& tensor = block.tensor(life.buffer);
    if (!life.is_saved() || tensor.type == ElementType::f32) continue;
    sum += bytes_of(tensor.shape.elements(), tensor.type).count();
  }
  return static_cast<double>(sum) / tokens;
}

inline std::int64_t copies(TrainingConfig const& config) {
  TrainingPlan const plan = make_plan(as_settled(config));
  return plan.stages.front().state_of(step_tensor::quantised_weights).bytes().count();
}

}  // namespace stagecraft::low_runs
