#pragma once

#include <string_view>

namespace stagecraft {

/// The files completion.bash and completion.zsh, with marks such as @program@ to be replaced.
std::string_view completion_bash();
std::string_view completion_zsh();

}  // namespace stagecraft
