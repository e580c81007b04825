#include <algorithm>
#include <cctype>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "libsim/import/shell/shell_expansion.hpp"

namespace stagecraft {

std::vector<std::string> open_names(std::string_view text) {
  std::vector<std::string> names;
  bool const is_arithmetic = text.find("$((") != std::string_view::npos;
  for (std::size_t i = 0; i < text.size();) {
    std::size_t const start = i;
    while (i < text.size() && is_name_character(text[i])) ++i;
    if (i == start) {
      ++i;
      continue;
    }
    std::string const name{text.substr(start, i - start)};
    bool const is_named =
        start > 0 && (text[start - 1] == '$' || (start > 1 && text.substr(start - 2, 2) == "${"));
    bool const is_word = std::isdigit(static_cast<unsigned char>(name[0])) == 0;
    bool const is_new = std::find(names.begin(), names.end(), name) == names.end();
    if (is_new && (is_named || (is_arithmetic && is_word))) names.push_back(name);
  }
  return names;
}

bool is_unresolved(std::string_view text) {
  return text.find('$') != std::string_view::npos || text.find('`') != std::string_view::npos;
}

}  // namespace stagecraft
