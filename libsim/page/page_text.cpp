#include "libsim/page/page_text.hpp"

#include "libsim/export/json_text.hpp"
#include "libsim/report/text_table.hpp"

namespace stagecraft {

double seconds(std::int64_t picoseconds) { return static_cast<double>(picoseconds) * 1e-12; }

std::string time_text(double seconds) {
  if (seconds >= 1) return decimals(seconds, seconds >= 100 ? 1 : 2) + "\u00a0s";
  if (seconds >= 1e-3) return decimals(seconds * 1e3, seconds >= 0.1 ? 0 : 1) + "\u00a0ms";
  return decimals(seconds * 1e6, 1) + "\u00a0µs";
}

std::string bytes_text(std::int64_t bytes) {
  std::string text = size_text(bytes);
  return text.replace(text.find(' '), 1, "\u00a0");
}

std::string percent_text(double part, double whole) {
  double const share = whole > 0 ? 100 * part / whole : 0;
  constexpr double least = 0.05;
  return share > 0 && share < least ? "less than 0.1\u00a0%" : decimals(share, 1) + "\u00a0%";
}

std::string grouped(double number) {
  std::string text = decimals(number, 0);
  for (std::size_t end = text.size(); end > 3; end -= 3) text.insert(end - 3, ",");
  return text;
}

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

std::string filled(std::string_view skeleton,
                   std::map<std::string_view, std::string> const& places) {
  std::string page;
  while (true) {
    std::size_t const begin = skeleton.find("{{");
    page += skeleton.substr(0, begin);
    if (begin == std::string_view::npos) return page;
    std::size_t const end = skeleton.find("}}", begin);
    page += places.at(skeleton.substr(begin + 2, end - begin - 2));
    skeleton.remove_prefix(end + 2);
  }
}

}  // namespace stagecraft
