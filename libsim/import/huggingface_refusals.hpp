#pragma once

#include <string_view>

namespace stagecraft {

/// Why a known family cannot be read, such as "a mixture of experts"; empty if the family is
/// unknown.
std::string_view reason_against(std::string_view model_type);

}  // namespace stagecraft
