#include <algorithm>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "libsim/model/layer_kinds.hpp"
#include "libsim/modules/blocks.hpp"

namespace stagecraft {
namespace {

/// The whole model on one rank without padding, as published counts describe it.
BlockShape unsharded(ModelConfig const& model) {
  BlockShape shape{.model = model};
  shape.model.vocabulary_multiple = 1;
  return shape;
}

/// FLOPs of attention's core: the part of the square that a window leaves.
std::int64_t core_flops(BlockProgram const& block, ModelConfig const& layer) {
  std::int64_t const square =
      flops_of(block, [](Op const& op) { return op.module == "core_attention"; });
  std::int64_t const pairs = layer.sequence * layer.sequence;
  return square / pairs * attended_square(layer.sequence, layer.window);
}

/// FLOPs of a layer, as Megatron-LM counts them: the router's product is not among them.
std::int64_t layer_flops(BlockProgram const& block, ModelConfig const& layer) {
  return core_flops(block, layer) + flops_of(block, [](Op const& op) {
           return op.module != "core_attention" && op.module != "router";
         });
}

/// A number of sequences for which every expert is chosen equally often.
std::int64_t even_sequences(ModelConfig const& model, LayerConfig const& kind) {
  if (!kind.experts) return 1;
  std::int64_t const choices = model.sequence * kind.experts->per_token;
  return kind.experts->count / std::gcd(kind.experts->count, choices);
}

/// The value of a block for one sequence.
using BlockValue = std::int64_t (*)(BlockProgram const&, ModelConfig const&);

/// Sums `value` over all layers of the model, with attention over the full square.
std::int64_t sum_over_layers(BlockShape const& shape, BlockValue value) {
  std::int64_t sum = 0;
  for (LayerRun const& run : layer_runs(shape.model)) {
    BlockShape layer = shape.with(run.kind);
    layer.model.attention = Attention::unfused;
    layer.micro = even_sequences(shape.model, run.kind);
    BlockProgram const block = build_layers(layer, 1, RecomputePolicy{});
    sum += run.count * (value(block, layer.model) / layer.micro);
  }
  return sum;
}

/// The same for the head and the modules of multi-token prediction before it.
std::int64_t value_of_head(BlockShape shape, BlockValue value) {
  ModelConfig layer = shape.model;
  if (shape.model.predicted_tokens > 0) {
    LayerConfig& kind = layer;
    kind = layer_kind(shape.model, shape.model.layers - 1);
    shape.micro = even_sequences(shape.model, layer);
    shape.model.attention = Attention::unfused;
    for (LayerRun& run : shape.model.pattern) run.kind.attention = Attention::unfused;
  }
  return value(build_head(shape, HeadWeight::own), layer) / shape.micro;
}

/// Sums `elements` over all parameters of the model.
std::int64_t count(ModelConfig const& model, std::int64_t (*elements)(ParameterTraits const&)) {
  BlockShape const shape = unsharded(model);
  auto const of_block = [&](BlockProgram const& block) {
    std::int64_t sum = 0;
    for (Parameter const& parameter : block.parameters) sum += elements(parameter);
    return sum;
  };
  std::int64_t sum =
      of_block(build_embedding(shape)) + of_block(build_head(shape, HeadWeight::own));
  for (LayerRun const& run : layer_runs(model)) {
    sum += run.count * of_block(declare_layer(shape.with(run.kind)));
  }
  return sum;
}

/// The value of a model. Each thread remembers the values of a few models: neighbours in a sweep or
/// a search share them, and building all blocks of a model takes longer than playing a small
/// iteration.
template <std::int64_t (*compute)(ModelConfig const&)>
std::int64_t remembered(ModelConfig const& model) {
  constexpr std::size_t most = 8;
  thread_local std::vector<std::pair<ModelConfig, std::int64_t>> known;
  auto const same =
      std::ranges::find_if(known, [&](auto const& other) { return other.first == model; });
  if (same != known.end()) return same->second;
  std::int64_t const value = compute(model);
  if (known.size() == most) known.erase(known.begin());
  known.emplace_back(model, value);
  return value;
}

std::int64_t published_parameters(ModelConfig const& model) {
  return count(model, published_elements);
}

std::int64_t flops_per_sequence(ModelConfig const& model) {
  BlockShape const shape = unsharded(model);
  return value_of_head(shape, layer_flops) + sum_over_layers(shape, layer_flops);
}

bool is_core_attention_only(RecomputePolicy const& policy) {
  return policy.modules == std::vector<std::string>{"core_attention"};
}

}  // namespace

std::int64_t parameter_count(ModelConfig const& model) {
  return remembered<published_parameters>(model);
}

std::int64_t active_parameter_count(ModelConfig const& model) {
  return count(model, active_elements);
}

std::int64_t model_flops_per_sequence(ModelConfig const& model) {
  return remembered<flops_per_sequence>(model);
}

std::int64_t attention_flops_per_sequence(ModelConfig const& model) {
  BlockShape const shape = unsharded(model);
  return value_of_head(shape, core_flops) + sum_over_layers(shape, core_flops);
}

bool has_paper_bytes(BlockShape const& shape, RecomputePolicy const& policy) {
  ModelConfig const& model = shape.model;
  bool const is_paper_model =
      shape.context() == 1 && model.pattern.empty() && !model.experts &&
      model.kv_heads == model.heads && model.heads * model.head_dim == model.hidden &&
      model.ffn_hidden == 4 * model.hidden && model.norms == NormPlaces::pre &&
      model.qk_norm == QkNorm::none && model.attention_softcap == 0 && !has_latents(model) &&
      model.activation == Activation::gelu && model.positions == Positions::learned &&
      model.attention == Attention::unfused && model.residual == Residual::sequential &&
      model.dropout > 0 && attention_dropout(model) > 0 && stores_masks(model) &&
      (model.precision == Precision::fp16 || model.precision == Precision::bf16);
  bool const is_paper_policy =
      policy.granularity == RecomputeGranularity::none ||
      (policy.granularity == RecomputeGranularity::selective && is_core_attention_only(policy)) ||
      (policy.granularity == RecomputeGranularity::full && policy.layers == 1);
  return is_paper_model && is_paper_policy;
}

Bytes paper_bytes(BlockShape const& shape, RecomputePolicy const& policy) {
  std::int64_t const s = shape.model.sequence;
  std::int64_t const a = shape.model.heads;
  std::int64_t const t = shape.tensor;
  std::int64_t const sbh = s * shape.micro * shape.model.hidden;
  bool const is_split = shape.sequence_parallel;
  if (policy.granularity == RecomputeGranularity::full) {
    return Bytes{2 * sbh / (is_split || policy.sharded_checkpoints ? t : 1)};
  }
  std::int64_t const linear = is_split ? 34 * sbh / t : 10 * sbh + 24 * sbh / t;
  std::int64_t const core = 5 * a * s * s * shape.micro / t;
  return Bytes{linear + (policy.granularity == RecomputeGranularity::none ? core : 0)};
}

}  // namespace stagecraft
