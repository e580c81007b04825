#include "libsim/page/html_text.hpp"

#include "libsim/export/json_text.hpp"

namespace stagecraft {

std::string html_text(std::string_view text) {
  std::string html;
  for (char const letter : sound_utf8(text)) {
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
    // These characters occur only inside strings, where JSON allows an escape.
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
