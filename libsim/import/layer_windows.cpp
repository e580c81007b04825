#include "libsim/import/layer_windows.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace stagecraft {
namespace {

/// The number of layers after which the list repeats; a divisor of its length.
std::size_t period_of(std::vector<bool> const& list) {
  for (std::size_t period = 1; period < list.size(); ++period) {
    if (list.size() % period != 0) continue;
    bool repeats = true;
    for (std::size_t i = period; i < list.size() && repeats; ++i) {
      repeats = list[i] == list[i - period];
    }
    if (repeats) return period;
  }
  return list.size();
}

}  // namespace

void set_windows(LayerWindows const& layers, ModelConfig& model) {
  std::vector<bool> const& windowed = layers.windowed;
  if (std::ranges::find(windowed, true) == windowed.end()) return;
  if (std::ranges::find(windowed, false) == windowed.end()) {
    model.window = layers.size;
    return;
  }
  LayerConfig within = model;
  within.window = layers.size;
  std::size_t const period = period_of(windowed);
  for (std::size_t i = 0; i < period; ++i) {
    LayerConfig const& kind = windowed[i] ? within : model;
    if (!model.pattern.empty() && model.pattern.back().kind == kind) {
      ++model.pattern.back().count;
    } else {
      model.pattern.push_back({.kind = kind, .count = 1});
    }
  }
}

std::optional<LayerWindows> find_windows(ModelConfig const& model) {
  LayerConfig plain = model;
  plain.window = 0;
  LayerWindows layers;
  auto const add = [&](LayerConfig kind) {
    std::int64_t const window = std::exchange(kind.window, 0);
    if (kind != plain) return false;
    if (window > 0 && layers.size > 0 && window != layers.size) return false;
    layers.size = std::max(layers.size, window);
    layers.windowed.push_back(window > 0);
    return true;
  };
  std::vector<LayerRun> const runs =
      model.pattern.empty() ? std::vector<LayerRun>{{.kind = model, .count = 1}} : model.pattern;
  while (static_cast<std::int64_t>(layers.windowed.size()) < model.layers) {
    for (LayerRun const& run : runs) {
      for (std::int64_t i = 0; i < run.count; ++i) {
        if (!add(run.kind)) return std::nullopt;
      }
    }
  }
  layers.windowed.resize(static_cast<std::size_t>(model.layers));
  return layers;
}

}  // namespace stagecraft
