#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>

#include "libsim/config/config_node.hpp"
#include "libsim/model/model_config.hpp"

/// Values of section `model` that are maps, or words beside numbers: how each is read and written.
/// The deduction guides are for clang 14, which does not deduce arguments of aggregates.
namespace stagecraft {

/// A cap on scores or logits: a number above 0, or `off`.
template <typename Number>
struct Cap {
  Number& value;
};
template <typename Number>
Cap(Number&) -> Cap<Number>;
void read_field(ConfigNode const& node, Cap<double> cap);
nlohmann::ordered_json to_json(Cap<double const> cap);

/// `window`: {size}, in section `model` also period and full; or `off`.
template <typename Integer>
struct Window {
  Integer& size;
};
template <typename Integer>
Window(Integer&) -> Window<Integer>;
void read_field(ConfigNode const& node, Window<std::int64_t> window);
nlohmann::ordered_json to_json(Window<std::int64_t const> window);

/// `latent_attention`: a map, or `off`.
void read_field(ConfigNode const& node, LatentAttention& latents);
nlohmann::ordered_json to_json(LatentAttention const& latents);

/// Reads a key `experts`: a map, or `none`. Each key that a map leaves out stays as it is. Reports
/// values that no model can have.
void read_field(ConfigNode const& node, std::optional<ExpertsConfig>& experts);

/// The inverse: a map with all keys, or "none".
nlohmann::ordered_json to_json(std::optional<ExpertsConfig> const& experts);

}  // namespace stagecraft
