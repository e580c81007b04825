#pragma once

#include <cstddef>
#include <string_view>

namespace stagecraft {

/// The position after the bracket that closes the one at `open`, `(` or `{`.
std::size_t closing_bracket(std::string_view text, std::size_t open);

/// The end of the `$(...)`, `${...}` or backquoted command at `at`; `at` if there is none.
std::size_t end_of_substitution(std::string_view text, std::size_t at);

}  // namespace stagecraft
