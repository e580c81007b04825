#include "libsim/sweep/sweep_filter.hpp"

#include <algorithm>
#include <utility>

#include "libsim/config/did_you_mean.hpp"
#include "libsim/config/yaml_text.hpp"
#include "libsim/plan/training_config_reader.hpp"
#include "libsim/sweep/sweep.hpp"

namespace stagecraft {
namespace {

/// `recompute` is short for the key that its word stands for.
std::string full_key(std::string const& name) {
  std::string_view const word_key = word_key_of(name);
  return word_key.empty() ? name : name + "." + std::string{word_key};
}

/// What is found at the dotted `path` below `node`, which itself stands at the key `at`; nothing if
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

/// Defaults of the keys outside the model, whose defaults depend on each other.
YamlNode const& default_run() {
  static YamlNode const tree = [] {
    Diagnostics diagnostics;
    nlohmann::ordered_json json = to_json(TrainingConfig{});
    json.erase("model");
    json["schedule"].erase("group");
    return parse_yaml(yaml_text(json), "defaults", diagnostics).value();
  }();
  return tree;
}

std::optional<ConditionValue> default_of(std::string const& key) {
  return look_up(default_run(), "", key);
}

/// What a setting says about a key; nothing if it leaves it alone.
std::optional<ConditionValue> said_by(Setting const& setting, std::string const& key) {
  if (setting.key == key) return look_up(setting.value, key, "");
  bool const is_above = key.size() > setting.key.size() && key.starts_with(setting.key) &&
                        key[setting.key.size()] == '.';
  if (!is_above) return std::nullopt;
  auto found =
      look_up(setting.value, setting.key, std::string_view{key}.substr(setting.key.size() + 1));
  if (found) return found;
  // The whole section is replaced.
  return default_of(key).value_or(ConditionValue{});
}

void collect_keys(YamlNode const& node, std::string const& at, std::vector<std::string>& keys) {
  if (node.kind != YamlNode::Kind::map) {
    keys.push_back(at);
    return;
  }
  for (std::size_t i = 0; i < node.items.size(); ++i) {
    collect_keys(node.items[i], at.empty() ? node.keys[i].text : at + "." + node.keys[i].text,
                 keys);
  }
}

std::vector<std::string> known_keys(std::vector<SweepAxis> const& axes, YamlNode const& base) {
  std::vector<std::string> keys;
  for (SweepAxis const& axis : axes) {
    if (axis.is_group) keys.push_back(axis.name);
    for (SweepEntry const& entry : axis.entries) {
      for (Setting const& setting : entry.settings) keys.push_back(setting.key);
    }
  }
  collect_keys(base, "", keys);
  collect_keys(default_run(), "", keys);
  return keys;
}

}  // namespace

SweepFilter::SweepFilter(std::vector<Condition> conditions,
                         std::vector<SweepAxis> const& axes,
                         YamlNode const& base,
                         Diagnostics& diagnostics)
    : conditions_{std::move(conditions)} {
  for (Condition const& condition : conditions_) {
    std::vector<Key>& keys = keys_.emplace_back();
    for (std::string const& name : condition.keys()) {
      std::string const path = full_key(name);
      Key& key = keys.emplace_back();
      key.base = look_up(base, "", path);
      if (!key.base) key.base = default_of(path);
      for (std::size_t i = axes.size(); i-- > 0;) {
        AxisSays says{i, {}};
        for (SweepEntry const& entry : axes[i].entries) {
          std::optional<ConditionValue>& value = says.values.emplace_back();
          if (axes[i].is_group && axes[i].name == name) value = condition_value(entry.label);
          for (Setting const& setting : entry.settings) {
            if (auto said = said_by(setting, path)) value = std::move(said);
          }
        }
        bool const says_something =
            std::any_of(says.values.begin(), says.values.end(),
                        [](auto const& value) { return value.has_value(); });
        if (says_something) key.axes.push_back(std::move(says));
      }
    }
    check(condition, keys, axes, base, diagnostics);
  }
}

void SweepFilter::check(Condition const& condition,
                        std::vector<Key> const& keys,
                        std::vector<SweepAxis> const& axes,
                        YamlNode const& base,
                        Diagnostics& diagnostics) const {
  for (std::size_t k = 0; k < keys.size(); ++k) {
    std::string const& name = condition.keys()[k];
    bool const is_always_said =
        std::any_of(keys[k].axes.begin(), keys[k].axes.end(), [](AxisSays const& says) {
          return std::all_of(says.values.begin(), says.values.end(),
                             [](auto const& value) { return value.has_value(); });
        });
    if (!keys[k].base && !is_always_said) {
      std::string accepted =
          "keys that the base or all cases of a group give, or that have a fixed default";
      std::vector<std::string> const known = known_keys(axes, base);
      std::string_view const meant = nearest_word(name, known);
      if (!meant.empty()) accepted += "; did you mean '" + std::string{meant} + "'?";
      diagnostics.add({condition.place(), "where",
                       "the key '" + printable(name) + "', of which nothing is known", accepted});
      continue;
    }
    if (!condition.is_number()[k]) continue;
    auto const refuse_word = [&](ConditionValue const& value) {
      bool const is_number = value.number || value.word == "true" || value.word == "false";
      if (is_number) return false;
      diagnostics.add(
          {condition.place(), "where",
           printable(name) + " as a number, but it can be '" + printable(value.word) + "'",
           "== and != for words"});
      return true;
    };
    bool is_refused = keys[k].base && !is_always_said && refuse_word(*keys[k].base);
    for (AxisSays const& says : keys[k].axes) {
      for (auto const& value : says.values) {
        if (!is_refused && value) is_refused = refuse_word(*value);
      }
    }
  }
}

ConditionValue const& SweepFilter::value_of(Key const& key,
                                            std::vector<std::size_t> const& entries) const {
  for (AxisSays const& says : key.axes) {
    auto const& value = says.values[entries[says.axis]];
    if (value) return *value;
  }
  static ConditionValue const unknown;
  return key.base ? *key.base : unknown;
}

bool SweepFilter::passes(std::vector<std::size_t> const& entries) const {
  std::vector<ConditionValue const*> values;
  for (std::size_t i = 0; i < conditions_.size(); ++i) {
    values.clear();
    for (Key const& key : keys_[i]) values.push_back(&value_of(key, entries));
    if (!conditions_[i].holds(values)) return false;
  }
  return true;
}

}  // namespace stagecraft
