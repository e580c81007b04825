#include "libsim/model/model_config.hpp"

#include <algorithm>

namespace stagecraft {

LayerConfig const& written_kind(ModelConfig const& model, std::int64_t layer) {
  if (model.pattern.empty()) return model;
  std::int64_t rest = layer % pattern_layers(model);
  auto run = model.pattern.begin();
  while (rest >= run->count) rest -= (run++)->count;
  return run->kind;
}

std::int64_t pattern_layers(ModelConfig const& model) {
  std::int64_t layers = 0;
  for (LayerRun const& run : model.pattern) layers += run.count;
  return layers;
}

bool has_experts(ModelConfig const& model) {
  return model.experts || std::any_of(model.pattern.begin(), model.pattern.end(),
                                      [](LayerRun const& run) { return run.kind.experts; });
}

bool counts_over_batch(ModelConfig const& model) {
  auto const counts = [](std::optional<ExpertsConfig> const& experts) {
    return experts && experts->router.counts_over_batch();
  };
  return counts(model.experts) ||
         std::any_of(model.pattern.begin(), model.pattern.end(),
                     [&](LayerRun const& run) { return counts(run.kind.experts); });
}

LayerConfig layer_kind(ModelConfig const& model, std::int64_t layer) {
  LayerConfig kind = written_kind(model, layer);
  if (kind.experts && !kind.experts->is_sparse(layer)) kind.experts.reset();
  return kind;
}

}  // namespace stagecraft
