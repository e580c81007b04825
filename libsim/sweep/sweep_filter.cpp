#include "libsim/sweep/sweep_filter.hpp"

#include <algorithm>
#include <utility>

#include "libsim/config/did_you_mean.hpp"
#include "libsim/sweep/condition/same_place.hpp"

namespace stagecraft {
namespace {

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

/// Checks the names and words of a condition against the keys that rows of a sweep can have, with
/// their values. It only reads; problems go to `diagnostics`, at their place in the condition.
class ConditionCheck {
 public:
  ConditionCheck(Condition const& condition,
                 std::vector<KeyValues> const& keys,
                 std::vector<SweepAxis> const& axes,
                 RunVariants const& runs,
                 Diagnostics& diagnostics)
      : condition_{condition}, keys_{keys}, axes_{axes}, runs_{runs}, diagnostics_{diagnostics} {}

  void check() {
    for (std::size_t key = 0; key < keys_.size(); ++key) {
      bool const is_known = check_known(key);
      if (is_known && condition_.is_number()[key]) check_numbers(key);
    }
    for (Condition::WordUse const& use : condition_.words()) check_word(use);
  }

 private:
  std::string const& name(std::size_t key) const { return condition_.keys()[key]; }

  bool is_sound(std::size_t key) const {
    return diagnostics_.is_sound(name(key)) && diagnostics_.is_sound("cases." + name(key));
  }

  void report(std::string found, std::string accepted) {
    diagnostics_.add({condition_.place(), "where", std::move(found), std::move(accepted)});
  }

  /// Whether an axis sets a key at every point.
  bool is_always_set(std::size_t key) const {
    return std::any_of(keys_[key].axes.begin(), keys_[key].axes.end(), [](auto const& given) {
      return std::all_of(given.values.begin(), given.values.end(),
                         [](auto const& value) { return value.has_value(); });
    });
  }

  bool check_known(std::size_t key) {
    if (keys_[key].base || is_always_set(key)) return true;
    if (!is_sound(key)) return false;
    report("the key '" + printable(name(key)) + "', which has no value at some points",
           "keys that the base or all cases of a group give, or that have a fixed default" +
               did_you_mean(name(key), known_keys(axes_, runs_.base())));
    return false;
  }

  /// The values that a key can have.
  std::vector<ConditionValue const*> values_of(std::size_t key) const {
    std::vector<ConditionValue const*> values;
    if (keys_[key].base && !is_always_set(key)) values.push_back(&*keys_[key].base);
    for (KeyValues::AxisValues const& given : keys_[key].axes) {
      for (auto const& value : given.values) {
        if (value) values.push_back(&*value);
      }
    }
    return values;
  }

  void check_numbers(std::size_t key) {
    for (ConditionValue const* const value : values_of(key)) {
      if (value->number || value->word == "true" || value->word == "false") continue;
      report(printable(name(key)) + " as a number, but it can be '" + printable(value->word) + "'",
             "== and != for words");
      return;
    }
  }

  /// Reports a word that the key never has, if the key could not have it.
  void check_word(Condition::WordUse const& use) {
    std::vector<ConditionValue const*> const values = values_of(use.key);
    bool const is_taken =
        std::any_of(values.begin(), values.end(),
                    [&](ConditionValue const* value) { return value->word == use.word; });
    if (is_taken || values.empty() || !is_sound(use.key)) return;
    std::string const accepted = accepted_by(use);
    if (accepted.empty()) return;
    report("'" + printable(use.word) + "', which " + printable(name(use.key)) + " can never be",
           accepted);
  }

  /// What the key accepts instead, with the word that was probably meant; empty if it accepts the
  /// word.
  std::string accepted_by(Condition::WordUse const& use) const {
    for (SweepAxis const& axis : axes_) {
      if (!axis.is_group || axis.name != name(use.key)) continue;
      std::vector<std::string> cases;
      for (SweepEntry const& entry : axis.entries) cases.push_back(entry.label);
      return joined(cases) + did_you_mean_of_list(use.word, joined(cases));
    }
    Setting setting{name(use.key), {}, condition_.place()};
    setting.value.kind = YamlNode::Kind::scalar;
    setting.value.text = use.word;
    setting.value.place = condition_.place();
    Setting const* const settings[]{&setting};
    try {
      static_cast<void>(runs_.with(settings));
    } catch (ConfigError const& error) {
      for (Problem const& problem : error.problems()) {
        if (problem.stands_alone && is_same(problem.place, condition_.place())) {
          return problem.accepted;
        }
      }
    }
    return "";
  }

  Condition const& condition_;
  std::vector<KeyValues> const& keys_;
  std::vector<SweepAxis> const& axes_;
  RunVariants const& runs_;
  Diagnostics& diagnostics_;
};

/// Reports unknown keys, words in comparisons of numbers, and words that their key can never have
/// because no configuration accepts them. Skips keys of which `diagnostics` already has problems.
/// `keys` are the values of condition.keys(), in their order.
void check_condition(Condition const& condition,
                     std::vector<KeyValues> const& keys,
                     std::vector<SweepAxis> const& axes,
                     RunVariants const& runs,
                     Diagnostics& diagnostics) {
  ConditionCheck{condition, keys, axes, runs, diagnostics}.check();
}

}  // namespace

SweepFilter::SweepFilter(std::vector<Condition> conditions,
                         std::vector<SweepAxis> const& axes,
                         RunVariants const& runs,
                         Diagnostics& diagnostics)
    : conditions_{std::move(conditions)} {
  for (Condition const& condition : conditions_) {
    std::vector<KeyValues>& keys = keys_.emplace_back();
    for (std::string const& name : condition.keys()) {
      keys.push_back(values_of_key(name, axes, runs.base()));
    }
    check_condition(condition, keys, axes, runs, diagnostics);
  }
}

ConditionValue const& SweepFilter::value_of(KeyValues const& key,
                                            std::vector<std::size_t> const& entries) const {
  for (KeyValues::AxisValues const& given : key.axes) {
    auto const& value = given.values[entries[given.axis]];
    if (value) return *value;
  }
  static ConditionValue const unknown;
  return key.base ? *key.base : unknown;
}

bool SweepFilter::passes(std::vector<std::size_t> const& entries) const {
  std::vector<ConditionValue const*> values;
  for (std::size_t i = 0; i < conditions_.size(); ++i) {
    values.clear();
    for (KeyValues const& key : keys_[i]) values.push_back(&value_of(key, entries));
    if (!conditions_[i].holds(values)) return false;
  }
  return true;
}

}  // namespace stagecraft
