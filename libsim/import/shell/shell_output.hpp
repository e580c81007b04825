#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace stagecraft {

/// What `seq` prints, without the last end of a line: whole numbers LAST, FIRST LAST or FIRST STEP
/// LAST between blanks. Returns nullopt for other words, and for more than 10000 numbers.
std::optional<std::string> output_of_seq(std::string_view words);

}  // namespace stagecraft
