#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "libsim/config/yaml_tree.hpp"
#include "libsim/sweep/condition.hpp"

namespace stagecraft {

struct SweepAxis;

/// What a key of a condition is worth over a sweep.
struct KeyValues {
  /// What an axis says about a key, by entry; nothing where it leaves it alone.
  struct AxisSays {
    std::size_t axis = 0;
    std::vector<std::optional<ConditionValue>> values;
  };
  std::optional<ConditionValue> base;  ///< the base's, or the default
  std::vector<AxisSays> axes;          ///< last first
};

/// The defaults that do not depend on other keys.
YamlNode const& default_run();

/// What the key `name` of a condition, or the group of that name, is worth.
KeyValues values_of_key(std::string const& name,
                        std::vector<SweepAxis> const& axes,
                        YamlNode const& base);

}  // namespace stagecraft
