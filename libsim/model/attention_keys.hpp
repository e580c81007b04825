#pragma once

#include <cstdint>

#include "libsim/config/config_node.hpp"
#include "libsim/model/model_config.hpp"

/// Checks and defaults of keys of attention that depend on each other.
namespace stagecraft {

/// Reports keys of a window that only section `model` may have: `period` and `full`.
void refuse_period(ConfigNode const& window);

/// Turns a window with a period into a pattern. Pre: the pattern is settled.
void apply_window_period(ModelConfig& model, ConfigNode const& section);

/// Derives heads from latents. Pre: defaults of heads have not been derived.
void settle_latents(ModelConfig& model, ConfigNode const& section);

/// Reports keys that do not go with latents. Pre: the pattern is settled.
void check_latents(ModelConfig const& model, ConfigNode const& section);

/// Reports sinks of unfused attention, which has none.
void settle_sinks(LayerConfig const& layer, ConfigNode const& section);

/// Reports norms that a layer's kind cannot have.
void settle_norms(LayerConfig const& layer, ConfigNode const& section);

}  // namespace stagecraft
