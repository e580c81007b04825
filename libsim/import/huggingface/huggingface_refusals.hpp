#pragma once

#include <string_view>

namespace stagecraft {

/// Why a family cannot be read, such as "a mixture of experts"; of an unknown one what its name
/// tells.
std::string_view reason_against(std::string_view model_type);

}  // namespace stagecraft
