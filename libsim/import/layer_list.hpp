#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// Which layers a flag of Megatron-LM means: a number, or a Python list of 1 and 0 by layer.
namespace stagecraft {

/// The list for these layers, with equal neighbours together: [1]*2+[0]*1.
std::string layer_list(std::vector<bool> const& layers);

/// Reads such a list, a sum of terms [0,1] or [0,1]*N; nullopt if the text is none, or is not about
/// so many layers.
std::optional<std::vector<bool>> parse_layer_list(std::string_view text, std::int64_t layers);

}  // namespace stagecraft
