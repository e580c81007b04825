#include "libsim/import/shell/shell_brackets.hpp"

namespace stagecraft {

std::size_t closing_bracket(std::string_view text, std::size_t open) {
  char const close = text[open] == '(' ? ')' : '}';
  int depth = 0;
  for (std::size_t i = open; i < text.size(); ++i) {
    if (text[i] == text[open]) ++depth;
    if (text[i] == close && --depth == 0) return i + 1;
  }
  return text.size();
}

std::size_t end_of_substitution(std::string_view text, std::size_t at) {
  if (text[at] == '`') {
    std::size_t const end = text.find('`', at + 1);
    return end == std::string_view::npos ? at : end + 1;
  }
  bool const opens =
      text[at] == '$' && at + 1 < text.size() && (text[at + 1] == '(' || text[at + 1] == '{');
  return opens ? closing_bracket(text, at + 1) : at;
}

}  // namespace stagecraft
