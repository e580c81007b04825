#include "libsim/config/config_node.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "libsim/config/did_you_mean.hpp"
#include "libsim/units/parse_number.hpp"
#include "libsim/units/quantity.hpp"

namespace stagecraft {
namespace {

std::string to_text(double value) { return fmt::format("{:g}", value); }

}  // namespace

ConfigNode::ConfigNode(YamlNode const& node, std::string key, Diagnostics& diagnostics)
    : ConfigNode{&node, std::move(key), std::string{}, node.place, node.place, diagnostics} {}

ConfigNode::ConfigNode(YamlNode const* node,
                       std::string key,
                       std::string name,
                       Place place,
                       Place key_place,
                       Diagnostics& diagnostics)
    : node_{node},
      key_{std::move(key)},
      name_{std::move(name)},
      place_{std::move(place)},
      key_place_{std::move(key_place)},
      diagnostics_{&diagnostics} {}

bool ConfigNode::is_overridden(YamlNode const& node) {
  return node.is_override || std::any_of(node.items.begin(), node.items.end(),
                                         [](YamlNode const& item) { return is_overridden(item); });
}

std::string ConfigNode::key_of(std::string_view name) const {
  return (key_.empty() ? "" : key_ + ".") + std::string{name};
}

ConfigNode ConfigNode::child(std::string_view name) const {
  std::string const key = key_of(name);
  if (is_map()) {
    for (std::size_t i = 0; i < node_->keys.size(); ++i) {
      if (node_->keys[i].text != name) continue;
      YamlNode const& value = node_->items[i];
      return {&value, key, std::string{name}, value.place, node_->keys[i].place, *diagnostics_};
    }
  }
  return {nullptr, key, std::string{name}, place_, place_, *diagnostics_};
}

std::vector<ConfigNode> ConfigNode::items() const {
  std::vector<ConfigNode> nodes;
  if (!is_sequence()) return nodes;
  for (YamlNode const& item : node_->items) {
    std::string const index = "[" + std::to_string(nodes.size()) + "]";
    nodes.push_back({&item, key_ + index, name_ + index, item.place, item.place, *diagnostics_});
  }
  return nodes;
}

std::vector<ConfigNode> ConfigNode::entries() const {
  std::vector<ConfigNode> nodes;
  if (!is_map()) return nodes;
  for (std::size_t i = 0; i < node_->keys.size(); ++i) {
    YamlNode const& name = node_->keys[i];
    YamlNode const& value = node_->items[i];
    nodes.push_back(
        {&value, key_of(printable(name.text)), name.text, value.place, name.place, *diagnostics_});
  }
  return nodes;
}

std::optional<std::string> ConfigNode::text() const {
  if (is_scalar() && !scalar().empty()) return std::string{scalar()};
  report_once("text");
  return std::nullopt;
}

std::optional<std::int64_t> ConfigNode::integer(IntegerRange range,
                                                std::string_view alternative) const {
  auto const value = is_scalar() && !node_->quoted ? parse_integer(scalar()) : std::nullopt;
  if (value && *value >= range.smallest && *value <= range.largest) return value;
  report_once(std::string{alternative} + "a whole number from " + std::to_string(range.smallest) +
              " to " + std::to_string(range.largest));
  return std::nullopt;
}

std::optional<double> ConfigNode::number(NumberRange range) const {
  auto const value = is_scalar() && !node_->quoted ? parse_number<double>(scalar()) : std::nullopt;
  if (value && *value >= range.lower &&
      (*value < range.upper || (range.includes_upper && *value == range.upper))) {
    // Minus zero means the same as zero but would print differently.
    return *value == 0 ? 0.0 : *value;
  }
  report_once("a number from " + to_text(range.lower) +
              (range.includes_upper ? " to " : " to below ") + to_text(range.upper));
  return std::nullopt;
}

std::optional<bool> ConfigNode::boolean() const {
  if (is_scalar() && !node_->quoted) {
    // As YAML 1.1 has them.
    for (std::string_view const word : {"true", "True", "TRUE", "yes", "on"}) {
      if (scalar() == word) return true;
    }
    for (std::string_view const word : {"false", "False", "FALSE", "no", "off"}) {
      if (scalar() == word) return false;
    }
  }
  report_once("true or false");
  return std::nullopt;
}

std::string ConfigNode::found() const {
  if (node_ == nullptr) return "";
  switch (node_->kind) {
    case YamlNode::Kind::null:
      return "";
    case YamlNode::Kind::sequence:
      return node_->items.empty() ? "an empty list" : "a list";
    case YamlNode::Kind::map:
      return node_->items.empty() ? "an empty map" : "a map";
    case YamlNode::Kind::scalar:
      break;
  }
  // A whole file that is a text may be anything, and is not shown.
  if (key_.empty()) return "a text";
  return (node_->quoted ? "the text '" : "'") + printable(node_->text) + "'";
}

void ConfigNode::report(std::string found, std::string accepted) const {
  diagnostics_->add({place_, key_, std::move(found), std::move(accepted)});
}

void ConfigNode::report_key(std::string found, std::string accepted) const {
  diagnostics_->add({key_place_, key_, std::move(found), std::move(accepted)});
}

void ConfigNode::report_unknown(std::string accepted) const {
  diagnostics_->add({key_place_, key_, "an unknown key", std::move(accepted), true});
}

void ConfigNode::report_once(std::string accepted) const {
  if (is_scalar()) accepted += did_you_mean_of_list(scalar(), accepted);
  if (is_sound()) diagnostics_->add({place_, key_, found(), std::move(accepted), true});
}

}  // namespace stagecraft
