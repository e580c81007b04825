#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "libsim/model/model_config.hpp"

namespace stagecraft {

/// Which layers attend within a window, and its size in tokens, a token itself included.
struct LayerWindows {
  std::int64_t size = 0;
  std::vector<bool> windowed;  ///< by layer

  friend bool operator==(LayerWindows const&, LayerWindows const&) = default;
};

/// Gives these layers the window: as the model's own, or as a pattern of kinds that are equal but
/// for it. Pre: all other keys of layers are read, and the model has no pattern.
void set_windows(LayerWindows const& layers, ModelConfig& model);

/// The windows of a model whose layers are equal but for them; nullopt if they differ otherwise, or
/// in the size of their windows. Without windows all layers attend fully.
std::optional<LayerWindows> find_windows(ModelConfig const& model);

}  // namespace stagecraft
