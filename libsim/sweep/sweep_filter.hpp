#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "libsim/config/yaml_tree.hpp"
#include "libsim/sweep/condition.hpp"

namespace stagecraft {

struct SweepAxis;

/// Says which points of a sweep take part.
///
/// A key is worth what the last axis that says something about it gives it, else what the base
/// has, else its default (of keys whose default does not depend on others). All of it is looked up
/// once, so that a point costs well below a microsecond.
class SweepFilter {
 public:
  SweepFilter() = default;
  /// Reports keys that nothing is known about, and words where numbers are compared.
  /// `base`: a run file's tree.
  SweepFilter(std::vector<Condition> conditions,
              std::vector<SweepAxis> const& axes,
              YamlNode const& base,
              Diagnostics& diagnostics);

  /// Whether all conditions hold. `entries`: of each axis. Threads may share it.
  bool passes(std::vector<std::size_t> const& entries) const;

  std::vector<Condition> const& conditions() const { return conditions_; }

 private:
  /// What an axis says about a key, by entry; nothing where it leaves it alone.
  struct AxisSays {
    std::size_t axis = 0;
    std::vector<std::optional<ConditionValue>> values;
  };
  struct Key {
    std::optional<ConditionValue> base;
    std::vector<AxisSays> axes;  ///< last first
  };

  ConditionValue const& value_of(Key const& key, std::vector<std::size_t> const& entries) const;
  void check(Condition const& condition,
             std::vector<Key> const& keys,
             std::vector<SweepAxis> const& axes,
             YamlNode const& base,
             Diagnostics& diagnostics) const;

  std::vector<Condition> conditions_;
  std::vector<std::vector<Key>> keys_;  ///< of each condition
};

}  // namespace stagecraft
