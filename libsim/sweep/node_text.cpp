#include "libsim/sweep/node_text.hpp"

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>
#include <string_view>

#include "libsim/config/problem.hpp"

namespace stagecraft {
namespace {

std::string in_quotes(std::string const& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

/// Whether a text needs no quotes, even inside braces.
bool is_plain_everywhere(std::string const& text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
           std::string_view{"_./+-"}.find(c) != std::string_view::npos;
  }) && text.front() != '-';
}

template <typename Scalar>
std::string flow(YamlNode const& node, Scalar const& scalar) {
  std::string text;
  switch (node.kind) {
    case YamlNode::Kind::null:
      return "null";
    case YamlNode::Kind::scalar:
      return scalar(node);
    case YamlNode::Kind::sequence:
      for (YamlNode const& item : node.items) {
        text += (text.empty() ? "" : ", ") + flow(item, scalar);
      }
      return "[" + text + "]";
    case YamlNode::Kind::map:
      for (std::size_t i = 0; i < node.items.size(); ++i) {
        text += (i == 0 ? "" : ", ") + scalar(node.keys[i]) + ": " + flow(node.items[i], scalar);
      }
      return "{" + text + "}";
  }
  return text;
}

}  // namespace

std::string line_text(YamlNode const& node) {
  return flow(node, [](YamlNode const& scalar) { return printable(scalar.text); });
}

std::string exact_text(YamlNode const& node) {
  return flow(node, [](YamlNode const& scalar) {
    bool const is_plain = !scalar.quoted && is_plain_everywhere(scalar.text);
    return is_plain ? scalar.text : in_quotes(scalar.text);
  });
}

}  // namespace stagecraft
