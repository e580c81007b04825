#include "libsim/training/size_limits.hpp"

#include <algorithm>
#include <cmath>

#include "libsim/model/layer_kinds.hpp"

namespace stagecraft {

namespace {

/// Weights of a layer's experts; FLOPs and rows of tokens stay below what they would be if every
/// token used all of them.
double expert_weights(ModelConfig const& model, LayerConfig const& kind) {
  if (!kind.experts) return 0;
  auto const real = [](std::int64_t value) { return static_cast<double>(value); };
  ExpertsConfig const& experts = *kind.experts;
  return real(model.hidden) *
         (3 * (real(experts.count) * real(experts.ffn_hidden) + real(experts.shared_ffn_hidden)) +
          real(experts.count));
}

/// Elements that a token of a sparse layer leaves in addition to those of a dense layer.
double expert_activations(ModelConfig const& model, LayerConfig const& kind) {
  if (!kind.experts) return 0;
  auto const real = [](std::int64_t value) { return static_cast<double>(value); };
  ExpertsConfig const& experts = *kind.experts;
  return real(experts.per_token) * (4 * real(model.hidden) + 4 * real(experts.ffn_hidden)) +
         4 * real(experts.count) + 3 * real(experts.shared_ffn_hidden);
}

}  // namespace

PlanSizes plan_sizes(TrainingConfig const& config) {
  auto const real = [](std::int64_t value) { return static_cast<double>(value); };
  ModelConfig const& model = config.model;
  double const t = config.parallel.tensor;
  double const stages = config.parallel.pipeline;
  double const chunks = config.parallel.interleave;
  double const n = real(microbatches(config));
  double const tokens = real(model.sequence) * real(config.batch.micro);
  double const attention_width =
      real(model.heads) * real(std::max(model.head_dim, value_dim(model)));
  double const row = real(model.vocabulary_multiple) * t;
  double const vocabulary = std::ceil(real(model.vocabulary) / row) * row;

  double const routed =
      std::max(config.routing.capacity.value_or(1), config.routing.factor.value_or(1));

  PlanSizes sizes;
  sizes.ranks = t * stages * config.parallel.data * config.parallel.context;
  sizes.chunk_passes = stages * chunks * n;

  // 64 bytes per element cover its copies in forward, backward and recompute at up to 8 bytes each.
  double activations = real(model.hidden) + vocabulary;
  double weights = 2 * vocabulary * real(model.hidden);
  // Forward, backward and one recomputation are four forward passes of 2 FLOPs per multiply-add.
  double largest_layer = 0;
  for (LayerRun const& run : layer_runs(model)) {
    LayerConfig const& kind = run.kind;
    double const scores =
        kind.attention == Attention::unfused ? real(model.heads) * real(model.sequence) : 0.0;
    activations +=
        real(run.count) * (real(model.hidden) + 3 * attention_width + 2 * real(kind.ffn_hidden) +
                           scores + routed * expert_activations(model, kind));
    double const dense_weights =
        real(model.hidden) * (4 * attention_width + 3 * real(kind.ffn_hidden));
    double const layer_weights = dense_weights + expert_weights(model, kind);
    weights += real(run.count) * layer_weights;
    largest_layer =
        std::max(largest_layer, layer_weights + 2 * attention_width * real(model.sequence));
  }
  double const masks = n * real(model.sequence) * real(model.sequence);
  sizes.bytes = 64 * n * tokens * activations + 24 * weights * t + masks;

  double const layers = real(model.layers);
  double const chunk_layers =
      config.layout.kind == LayerSplit::Kind::even ? layers / (stages * chunks) : layers;
  sizes.flops = 8 * tokens * (chunk_layers * largest_layer + vocabulary * real(model.hidden)) / t;
  return sizes;
}

}  // namespace stagecraft
