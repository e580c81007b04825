#pragma once

#include <string_view>

namespace stagecraft {

/// The text of configs/software/megatron-2022.yaml.
extern std::string_view const default_software_text;

/// The text of configs/compared.yaml.
extern std::string_view const compared_text;

}  // namespace stagecraft
