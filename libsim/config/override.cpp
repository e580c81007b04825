#include "libsim/config/override.hpp"

#include <algorithm>
#include <array>
#include <memory>
#include <utility>

#include "libsim/config/config_node.hpp"

namespace stagecraft {
namespace {

/// Gives everything below an override the override's place: it has no lines that the user can see.
void set_place(YamlNode& node, Place const& place) {
  node.place = place;
  for (YamlNode& key : node.keys) set_place(key, place);
  for (YamlNode& item : node.items) set_place(item, place);
}

void mark_override(YamlNode& node) {
  node.is_override = true;
  for (YamlNode& item : node.items) mark_override(item);
}

YamlNode scalar_at(std::string_view text, Place const& place) {
  YamlNode node;
  node.kind = YamlNode::Kind::scalar;
  node.text = text;
  node.place = place;
  return node;
}

/// The value of `key` in `map`, added if it is missing.
YamlNode& entry(YamlNode& map, std::string_view key, Place const& key_place, Place const& place) {
  if (YamlNode* const found = map.find(key)) return *found;
  YamlNode made;
  made.kind = YamlNode::Kind::map;
  made.place = place;
  return map.add_entry(scalar_at(key, key_place), std::move(made));
}

/// Turns `section`, found at `path` above the key to be set, into a map; false if that is
/// impossible.
bool make_map(YamlNode& section,
              std::string const& path,
              Place const& place,
              OverrideRules const& rules,
              Diagnostics& diagnostics) {
  auto const word_key = rules.word_keys.find(path);
  if (section.kind == YamlNode::Kind::scalar && word_key != rules.word_keys.end()) {
    YamlNode map;
    map.kind = YamlNode::Kind::map;
    map.place = section.place;
    YamlNode key = scalar_at(word_key->second, section.place);
    map.add_entry(std::move(key), std::move(section));
    section = std::move(map);
  } else if (section.kind == YamlNode::Kind::scalar && rules.open_reference) {
    if (!rules.open_reference(section, path)) return false;
  }
  if (section.kind == YamlNode::Kind::map) return true;
  diagnostics.add({place, path, ConfigNode{section, path, diagnostics}.found(),
                   "a map, as the override sets a key below it"});
  return false;
}

/// Whether a map is a value with its provenance, as constants of a system are.
bool is_sourced(YamlNode const& node) {
  return node.kind == YamlNode::Kind::map && node.find("value") != nullptr &&
         node.find("source") != nullptr;
}

/// Whether `key` is a part of the value of a constant, given or to be added, not of what is said of
/// it.
bool is_part_of_value(YamlNode const& constant, std::string_view key) {
  constexpr std::array<std::string_view, 4> of_constant{"value", "source", "fitted", "spread"};
  return constant.find("value")->kind == YamlNode::Kind::map &&
         std::ranges::find(of_constant, key) == of_constant.end();
}

}  // namespace

bool is_dotted_key(std::string_view key) {
  bool const has_empty_part = key.empty() || key.front() == '.' || key.back() == '.' ||
                              key.find("..") != std::string_view::npos;
  bool const is_too_deep = std::count(key.begin(), key.end(), '.') > 8;
  return !has_empty_part && !is_too_deep;
}

void set_key(YamlNode& root,
             std::string_view key,
             Place const& key_place,
             YamlNode value,
             OverrideRules const& rules,
             Diagnostics& diagnostics,
             ValueOrigin origin) {
  Place const place = value.place;
  YamlNode* node = &root;
  for (std::size_t from = 0;;) {
    std::size_t const dot = key.find('.', from);
    std::string_view const part = key.substr(from, dot - from);
    // node.all_reduce.bandwidth is that of node.all_reduce.value.
    if (is_sourced(*node) && is_part_of_value(*node, part)) node = node->find("value");
    node = &entry(*node, part, key_place, place);
    if (dot == std::string_view::npos) break;
    std::string const path = printable(key.substr(0, dot));
    if (!make_map(*node, path, place, rules, diagnostics)) return;
    from = dot + 1;
  }
  *node = std::move(value);
  if (origin == ValueOrigin::override) mark_override(*node);
}

std::optional<YamlNode> parse_override_value(std::string_view text,
                                             Place const& place,
                                             std::string const& key,
                                             Diagnostics& diagnostics) {
  Diagnostics of_value;
  auto value = parse_yaml(text, *place.origin, of_value);
  for (Problem const& problem : of_value.problems()) {
    // The positions count from the start of the value, which the user does not see as a file.
    diagnostics.add({place, key, problem.found, problem.accepted});
  }
  if (value) set_place(*value, place);
  return value;
}

void apply_override(YamlNode& root,
                    std::string_view override_text,
                    OverrideRules const& rules,
                    Diagnostics& diagnostics) {
  auto const origin = std::make_shared<std::string const>("--set " + printable(override_text));
  Place const place{origin};
  std::size_t const equals = override_text.find('=');
  std::string_view const key = override_text.substr(0, equals);
  if (equals == std::string_view::npos || !is_dotted_key(key)) {
    diagnostics.add({place, "", "'" + printable(override_text) + "'",
                     "KEY=VALUE with a dotted key, such as parallel.tensor=4"});
    return;
  }
  if (override_text.find_first_not_of(' ', equals + 1) == std::string_view::npos) {
    diagnostics.add({place, printable(key), "", "a value after '='"});
    return;
  }
  auto value =
      parse_override_value(override_text.substr(equals + 1), place, printable(key), diagnostics);
  if (!value) return;
  set_key(root, key, place, std::move(*value), rules, diagnostics);
}

}  // namespace stagecraft
