#pragma once

#include <string_view>

namespace stagecraft {

/// The text of configs/residuals.yaml.
extern std::string_view const residuals_text;

}  // namespace stagecraft
