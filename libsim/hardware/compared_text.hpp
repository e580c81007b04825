#pragma once

#include <string_view>

namespace stagecraft {

/// The text of configs/compared.yaml.
extern std::string_view const compared_text;

}  // namespace stagecraft
