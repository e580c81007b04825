#include "libsim/report/wrapped_text.hpp"

#include <sstream>

#include "libsim/report/text_table.hpp"

namespace stagecraft {

std::string wrapped(std::string const& text, int width, std::size_t indent) {
  std::istringstream words{text};
  std::string result;
  std::size_t column = 0;
  for (std::string word; words >> word; column += columns_of(word)) {
    if (column > 0 && column + 1 + columns_of(word) > static_cast<std::size_t>(width)) {
      result += '\n' + std::string(indent, ' ');
      column = indent;
    } else if (column > 0) {
      result += ' ';
      ++column;
    }
    result += word;
  }
  return result + '\n';
}

std::string wrapped_lines(std::string const& text, int width, std::size_t indent) {
  std::istringstream lines{text};
  std::string result;
  for (std::string line; std::getline(lines, line);) result += wrapped(line, width, indent);
  return result;
}

}  // namespace stagecraft
