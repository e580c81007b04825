#include "libsim/import/huggingface_windows.hpp"

#include <algorithm>
#include <string>
#include <vector>

namespace stagecraft {
namespace {

/// Whether each layer attends within the window.
std::vector<bool> windowed_layers(HuggingfaceKeys& keys,
                                  WindowLayers const& rule,
                                  std::int64_t layers) {
  std::vector<std::string> const types = keys.find_texts("layer_types");
  std::vector<bool> windowed;
  for (std::int64_t i = 0; i < layers; ++i) {
    bool const is_full = rule.full_every > 0 && (i + 1) % rule.full_every == 0;
    auto const at = static_cast<std::size_t>(i);
    windowed.push_back(at < types.size() ? types[at] == "sliding_attention"
                                         : i >= rule.first && !is_full);
  }
  return windowed;
}

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

WindowLayers windows_behind_first(HuggingfaceKeys& keys) {
  WindowLayers layers;
  layers.is_used = keys.find_boolean({"use_sliding_window"}).value_or(false);
  layers.first = keys.find_integer({"max_window_layers"}, {0, 1 << 20}).value_or(0);
  return layers;
}

void read_windows(HuggingfaceKeys& keys, WindowLayers const& layers, ModelConfig& model) {
  auto const size = keys.find_integer({"sliding_window"}, {1, 1LL << 40});
  if (!layers.is_used || !size || *size >= model.sequence) {
    keys.without_effect({"sliding_window", "layer_types"});
    return;
  }
  if (keys.leaves_out("sliding_window", "attention is modelled over the whole sequence")) return;
  std::vector<bool> const windowed = windowed_layers(keys, layers, model.layers);
  if (std::ranges::all_of(windowed, [](bool is_windowed) { return is_windowed; })) {
    model.window = *size;
    return;
  }
  LayerConfig within = model;
  within.window = *size;
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

}  // namespace stagecraft
