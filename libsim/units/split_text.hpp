#pragma once

#include <string_view>
#include <vector>

namespace stagecraft {

/// The parts of `text` between the separators, empty ones too: one more than there are separators.
/// They are views of `text`. Pre: the separator is not empty.
std::vector<std::string_view> split_text(std::string_view text, std::string_view separator);

}  // namespace stagecraft
