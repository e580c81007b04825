#pragma once

#include <cstddef>
#include <string>

namespace stagecraft {

/// The words of a text in lines of at most `width` columns (a longer word gets a line of its own);
/// all lines but the first are indented by `indent`. Each ends with a newline; each code point of
/// UTF-8 counts as one column.
std::string wrapped(std::string const& text, int width, std::size_t indent = 0);

/// The same of each line of a text by itself.
std::string wrapped_lines(std::string const& text, int width, std::size_t indent = 0);

}  // namespace stagecraft
