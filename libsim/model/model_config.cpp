#include "libsim/model/model_config.hpp"

#include <algorithm>

namespace stagecraft {

std::int64_t pattern_layers(ModelConfig const& model) {
  std::int64_t layers = 0;
  for (LayerRun const& run : model.pattern) layers += run.count;
  return layers;
}

LayerConfig const& layer_kind(ModelConfig const& model, std::int64_t layer) {
  if (model.pattern.empty()) return model;
  std::int64_t rest = layer % pattern_layers(model);
  auto run = model.pattern.begin();
  while (rest >= run->count) rest -= (run++)->count;
  return run->kind;
}

std::vector<LayerRun> layer_runs(ModelConfig const& model) {
  if (model.pattern.empty()) return {{model, model.layers}};
  std::vector<LayerRun> runs = model.pattern;
  std::int64_t const times = model.layers / std::max<std::int64_t>(1, pattern_layers(model));
  for (LayerRun& run : runs) run.count *= times;
  return runs;
}

}  // namespace stagecraft
