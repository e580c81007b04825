#include "libsim/sweep/key_values.hpp"

#include <algorithm>
#include <utility>

#include "libsim/config/yaml_text.hpp"
#include "libsim/run/run_keys.hpp"
#include "libsim/training/training_config_reader.hpp"

namespace stagecraft {
namespace {

/// The full name of keys such as `recompute`, which is short for the key whose value its word is.
std::string full_key(std::string const& name) {
  std::string_view const word_key = word_key_of(name);
  return word_key.empty() ? name : name + "." + std::string{word_key};
}

/// The value at the dotted `path` below `node`, which is the value of the key `at`; nullopt if
/// there is no such key.
std::optional<ConditionValue> look_up(YamlNode const& node,
                                      std::string const& at,
                                      std::string_view path) {
  if (path.empty()) {
    bool const is_scalar = node.kind == YamlNode::Kind::scalar;
    return is_scalar ? condition_value(node.text) : ConditionValue{};
  }
  if (node.kind == YamlNode::Kind::scalar && path == word_key_of(at)) {
    return condition_value(node.text);
  }
  if (node.kind != YamlNode::Kind::map) return std::nullopt;
  std::size_t const dot = path.find('.');
  std::string const name{path.substr(0, dot)};
  YamlNode const* const child = node.find(name);
  if (child == nullptr) return std::nullopt;
  return look_up(*child, at.empty() ? name : at + "." + name,
                 dot == std::string_view::npos ? std::string_view{} : path.substr(dot + 1));
}

std::optional<ConditionValue> default_of(std::string const& key) {
  return look_up(default_run(), "", key);
}

/// The value that a setting gives a key; nullopt if it does not set it.
std::optional<ConditionValue> value_in(Setting const& setting, std::string const& key) {
  if (setting.key == key) return look_up(setting.value, key, "");
  bool const is_above = key.size() > setting.key.size() && key.starts_with(setting.key) &&
                        key[setting.key.size()] == '.';
  if (!is_above) return std::nullopt;
  auto found =
      look_up(setting.value, setting.key, std::string_view{key}.substr(setting.key.size() + 1));
  if (found) return found;
  // The setting replaces the whole section.
  return default_of(key).value_or(ConditionValue{});
}

}  // namespace

YamlNode const& default_run() {
  static YamlNode const tree = [] {
    Diagnostics diagnostics;
    TrainingConfig const defaults;
    nlohmann::ordered_json json = to_json(defaults);
    for (KeyText const& text : run_keys()) {
      auto const at = pointer_to(text.key);
      if (text.is_open && json.contains(at)) json.at(at.parent_pointer()).erase(at.back());
    }
    return parse_yaml(yaml_text(json), "defaults", diagnostics).value();
  }();
  return tree;
}

KeyValues values_of_key(std::string const& name,
                        std::vector<SweepAxis> const& axes,
                        YamlNode const& base) {
  std::string const path = full_key(name);
  KeyValues key;
  key.base = look_up(base, "", path);
  if (!key.base) key.base = default_of(path);
  for (std::size_t i = axes.size(); i-- > 0;) {
    KeyValues::AxisValues given{i, {}};
    for (SweepEntry const& entry : axes[i].entries) {
      std::optional<ConditionValue>& value = given.values.emplace_back();
      if (axes[i].is_group && axes[i].name == name) value = condition_value(entry.label);
      for (Setting const& setting : entry.settings) {
        if (auto set = value_in(setting, path)) value = std::move(set);
      }
    }
    bool const says_something = std::any_of(given.values.begin(), given.values.end(),
                                            [](auto const& value) { return value.has_value(); });
    if (says_something) key.axes.push_back(std::move(given));
  }
  return key;
}

}  // namespace stagecraft
