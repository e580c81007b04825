#include "libsim/sweep/sweep_filter.hpp"

#include <utility>

#include "libsim/sweep/condition/condition_check.hpp"

namespace stagecraft {
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
