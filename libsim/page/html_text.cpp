#include "libsim/page/html_text.hpp"

#include <nlohmann/json.hpp>

namespace stagecraft {

std::string html_text(std::string_view text) {
  // A round through JSON replaces what is no UTF-8.
  auto const replace = nlohmann::json::error_handler_t::replace;
  auto const sound =
      nlohmann::json::parse(nlohmann::json(std::string{text}).dump(-1, ' ', false, replace))
          .get<std::string>();
  std::string html;
  for (char const letter : sound) {
    switch (letter) {
      case '&':
        html += "&amp;";
        break;
      case '<':
        html += "&lt;";
        break;
      case '>':
        html += "&gt;";
        break;
      case '"':
        html += "&quot;";
        break;
      case '\0':
        break;
      default:
        html += letter;
    }
  }
  return html;
}

std::string script_json(std::string const& json) {
  std::string text;
  text.reserve(json.size());
  for (char const letter : json) {
    // Each stands only inside of strings, where JSON takes an escape for it.
    if (letter == '<') {
      text += "\\u003c";
    } else if (letter == '>') {
      text += "\\u003e";
    } else if (letter == '&') {
      text += "\\u0026";
    } else {
      text += letter;
    }
  }
  return text;
}

}  // namespace stagecraft
