#pragma once

#include <cstdint>
#include <string>

#include "libsim/config/config_node.hpp"

/// Limits and texts that the readers of section `model` share.
namespace stagecraft {

/// The upper bound of the number of layers, far above any real model.
inline constexpr std::int64_t most_layers = 100'000;
inline constexpr std::int64_t most_experts = 1 << 16;
inline constexpr std::int64_t widest = 1 << 24;

/// A key with its value, for an error about another key: "heads (96)".
inline std::string with_value(ConfigNode const& node, std::int64_t value) {
  return node.key() + " (" + std::to_string(value) + ")";
}

}  // namespace stagecraft
