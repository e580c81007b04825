#include "apps/stagecraft/key_listing.hpp"

#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

#include "apps/stagecraft/terminal.hpp"
#include "libsim/report/text_table.hpp"

namespace stagecraft {
namespace {

using Json = nlohmann::ordered_json;

Json to_json(std::span<KeyText const> keys) {
  Json list = Json::array();
  for (KeyText const& text : keys) {
    Json& key = list.emplace_back(
        Json{{"key", text.key}, {"accepts", text.accepts}, {"meaning", text.meaning}});
    if (!text.fallback.empty()) key["default"] = text.fallback;
  }
  return list;
}

/// Each key with what it accepts and its default, and below it what it means.
std::string to_text(std::span<KeyText const> keys, int width) {
  std::string text;
  for (KeyText const& key : keys) {
    std::string line = std::string{key.key} + ": " + std::string{key.accepts};
    if (key.fallback == "required") {
      line += "; required";
    } else if (!key.fallback.empty()) {
      line += "; default " + std::string{key.fallback};
    }
    text += key.fallback.empty() ? line + "\n" : wrapped(line, width, 2);
    text += "    " + wrapped(std::string{key.meaning}, width - 4, 4);
  }
  return text;
}

}  // namespace

int print_keys(CommandLine const& line, std::string_view schema, std::span<KeyText const> keys) {
  std::cout << (line.has("json") ? Json{{"schema", schema}, {"keys", to_json(keys)}}.dump(1) + "\n"
                                 : to_text(keys, standard_output_style().width));
  return 0;
}

}  // namespace stagecraft
