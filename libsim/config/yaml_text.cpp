#include "libsim/config/yaml_text.hpp"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <string_view>

namespace stagecraft {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t widest_line = 100;

/// Whether a text can be written without quotes, also inside braces. It must start with a letter,
/// or be a quantity (a number and a unit), and contain nothing that YAML could take for structure.
bool is_plain(std::string_view text) {
  constexpr std::string_view safe = " _-./+%()";
  constexpr std::string_view reserved[] = {"null",  "Null",  "NULL",  "true", "True", "TRUE",
                                           "false", "False", "FALSE", "yes",  "no"};
  if (text.empty() || text.size() > 200 || text.back() == ' ') return false;
  auto const first = static_cast<unsigned char>(text.front());
  bool const is_quantity = std::isdigit(first) != 0 && text.find(' ') != std::string_view::npos;
  if (std::isalpha(first) == 0 && !is_quantity) return false;
  if (std::find(std::begin(reserved), std::end(reserved), text) != std::end(reserved)) return false;
  return std::all_of(text.begin(), text.end(), [&](char c) {
    return (static_cast<unsigned char>(c) < 0x80 &&
            std::isalnum(static_cast<unsigned char>(c)) != 0) ||
           safe.find(c) != std::string_view::npos;
  });
}

std::string scalar(Json const& value) {
  if (value.is_string() && is_plain(value.get_ref<std::string const&>())) {
    return value.get<std::string>();
  }
  return value.dump();  // JSON's scalars are YAML's
}

std::string flow(Json const& value) {
  if (!value.is_structured()) return scalar(value);
  std::string text;
  for (auto const& [key, item] : value.items()) {
    if (!text.empty()) text += ", ";
    text += value.is_object() ? scalar(key) + ": " + flow(item) : flow(item);
  }
  return value.is_object() ? "{" + text + "}" : "[" + text + "]";
}

bool holds_only_scalars(Json const& value) {
  return std::none_of(value.begin(), value.end(),
                      [](Json const& item) { return item.is_object(); });
}

void write_entries(std::string& out, Json const& map, std::size_t indent) {
  for (auto const& [key, value] : map.items()) {
    out += std::string(indent, ' ') + scalar(key) + ":";
    if (value.is_object() && !value.empty()) {
      std::string const line = flow(value);
      bool const fits = indent + key.size() + 2 + line.size() <= widest_line;
      if (indent == 0 || !fits || !holds_only_scalars(value)) {
        out += "\n";
        write_entries(out, value, indent + 2);
        continue;
      }
    }
    out += " " + flow(value) + "\n";
  }
}

}  // namespace

std::string yaml_text(Json const& value) {
  if (!value.is_object() || value.empty()) return flow(value) + "\n";
  std::string out;
  write_entries(out, value, 0);
  return out;
}

}  // namespace stagecraft
