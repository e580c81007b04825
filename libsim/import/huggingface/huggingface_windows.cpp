#include "libsim/import/huggingface/huggingface_windows.hpp"

#include <string>
#include <vector>

#include "libsim/import/layer_windows.hpp"

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

}  // namespace

WindowLayers windows_behind_first(HuggingfaceKeys& keys) {
  WindowLayers layers;
  layers.is_used = keys.find_boolean({"use_sliding_window"}).value_or(false);
  layers.first = keys.find_integer({"max_window_layers"}, {0, 1 << 20}).value_or(0);
  return layers;
}

void read_windows(HuggingfaceKeys& keys, WindowLayers const& layers, ModelConfig& model) {
  // 0 is what transformers 5 writes of a model without windows.
  std::int64_t const size = keys.find_integer({"sliding_window"}, {0, 1LL << 40}).value_or(0);
  if (!layers.is_used || size == 0 || size >= model.sequence) {
    keys.without_effect({"sliding_window", "layer_types"});
    return;
  }
  if (keys.leaves_out("sliding_window", "attention is modelled over the whole sequence")) return;
  set_windows({.size = size, .windowed = windowed_layers(keys, layers, model.layers)}, model);
}

}  // namespace stagecraft
