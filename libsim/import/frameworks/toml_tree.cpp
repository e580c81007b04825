#include "libsim/import/frameworks/toml_tree.hpp"

#define TOML_EXCEPTIONS 0
#define TOML_HEADER_ONLY 1
#include <toml++/toml.h>

#include <sstream>

namespace stagecraft {
namespace {

using Origin = std::shared_ptr<std::string const>;

Place place_of(toml::source_region const& region, Origin const& origin) {
  return {origin, static_cast<int>(region.begin.line), static_cast<int>(region.begin.column)};
}

YamlNode key_node(toml::key const& key, Origin const& origin) {
  YamlNode node;
  node.kind = YamlNode::Kind::scalar;
  node.text = key.str();
  node.place = place_of(key.source(), origin);
  return node;
}

YamlNode tree_of(toml::node const& value, Origin const& origin) {
  YamlNode node;
  node.place = place_of(value.source(), origin);
  if (auto const* const table = value.as_table()) {
    node.kind = YamlNode::Kind::map;
    for (auto const& [key, entry] : *table) {
      node.add_entry(key_node(key, origin), tree_of(entry, origin));
    }
  } else if (auto const* const array = value.as_array()) {
    node.kind = YamlNode::Kind::sequence;
    for (toml::node const& item : *array) node.items.push_back(tree_of(item, origin));
  } else {
    node.kind = YamlNode::Kind::scalar;
    node.quoted = value.is_string();
    if (auto const* const text = value.as_string()) {
      node.text = text->get();
    } else {
      std::ostringstream printed;
      value.visit([&](auto const& scalar) {
        if constexpr (toml::is_value<decltype(scalar)>) printed << scalar;
      });
      node.text = printed.str();
    }
  }
  return node;
}

}  // namespace

std::optional<YamlNode> parse_toml(std::string_view text,
                                   std::string const& origin,
                                   Diagnostics& diagnostics) {
  auto const shared = std::make_shared<std::string const>(origin);
  if (text.size() > largest_yaml_file) {
    diagnostics.add({Place{shared}, "", std::to_string(text.size()) + " bytes",
                     "at most " + std::to_string(largest_yaml_file)});
    return std::nullopt;
  }
  toml::parse_result const parsed = toml::parse(text);
  if (!parsed) {
    diagnostics.add({place_of(parsed.error().source(), shared), "",
                     printable(parsed.error().description()), "TOML"});
    return std::nullopt;
  }
  return tree_of(parsed.table(), shared);
}

}  // namespace stagecraft
