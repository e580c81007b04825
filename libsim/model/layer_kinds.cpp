#include "libsim/model/layer_kinds.hpp"

#include <algorithm>

namespace stagecraft {

LayerKinds::LayerKinds(ModelConfig const& model) {
  if (model.pattern.empty() && !model.experts && model.layers > 0) {
    kinds_.push_back(model);
    numbers_.assign(static_cast<std::size_t>(model.layers), 0);
    return;
  }
  numbers_.reserve(static_cast<std::size_t>(model.layers));
  for (std::int64_t layer = 0; layer < model.layers; ++layer) {
    LayerConfig const kind = layer_kind(model, layer);
    auto known = std::find(kinds_.begin(), kinds_.end(), kind);
    if (known == kinds_.end()) known = kinds_.insert(known, kind);
    numbers_.push_back(static_cast<int>(known - kinds_.begin()));
  }
}

LayerKinds kinds_with_predictions(ModelConfig const& model) {
  LayerKinds kinds{model};
  int const last = kinds.numbers_.back();
  kinds.numbers_.resize(kinds.numbers_.size() + static_cast<std::size_t>(model.predicted_tokens),
                        last);
  return kinds;
}

std::vector<LayerRun> layer_runs(ModelConfig const& model) {
  LayerKinds const kinds{model};
  std::vector<LayerRun> runs;
  for (int const number : kinds.of_layers(0, kinds.layers())) {
    // Numbers are given in the order in which kinds occur.
    if (number == static_cast<int>(runs.size())) runs.push_back({kinds[number], 0});
    ++runs[static_cast<std::size_t>(number)].count;
  }
  return runs;
}

}  // namespace stagecraft
