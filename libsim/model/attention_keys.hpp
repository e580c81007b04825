#pragma once

#include <cstdint>
#include <string_view>

#include "libsim/config/config_node.hpp"
#include "libsim/config/section_reader.hpp"
#include "libsim/config/section_writer.hpp"
#include "libsim/model/model_config.hpp"

/// The keys of section `model` that are maps, or words beside numbers, and what they need of each
/// other. Each is read and written by one pair of functions.
namespace stagecraft {

/// A cap on scores or logits: a number above 0, or `off`.
void visit_cap(SectionReader& reader, std::string_view key, double& cap);
void visit_cap(SectionWriter& writer, std::string_view key, double cap);

/// `window`: {size}, in section `model` also period and full; or `off`.
void visit_window(SectionReader& reader, std::int64_t& size);
void visit_window(SectionWriter& writer, std::int64_t size);

/// `latent_attention`: a map, or `off`.
void visit_latents(SectionReader& reader, LatentAttention& latents);
void visit_latents(SectionWriter& writer, LatentAttention const& latents);

/// Reports what only section `model` may say of a window.
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
