#pragma once

#include <cstdint>

#include "libsim/import/huggingface/huggingface_keys.hpp"
#include "libsim/model/model_config.hpp"

namespace stagecraft {

/// Which layers of a family attend within a window, where no `layer_types` says so.
struct WindowLayers {
  std::int64_t first = 0;       ///< layers before it attend fully
  std::int64_t full_every = 0;  ///< n: layers n - 1, 2n - 1, ... attend fully; 0: none of them
  bool is_used = true;          ///< false: all layers attend fully
};

/// Qwen's rule: from `max_window_layers` on, if `use_sliding_window` is true.
WindowLayers windows_behind_first(HuggingfaceKeys& keys);

/// Reads `sliding_window` and `layer_types` into the model's window, or into a pattern of layers
/// with and without one. A window as long as the sequence is none.
void read_windows(HuggingfaceKeys& keys, WindowLayers const& layers, ModelConfig& model);

}  // namespace stagecraft
