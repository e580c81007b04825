#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "libsim/config/yaml_tree.hpp"
#include "libsim/sweep/condition/condition.hpp"
#include "libsim/sweep/sweep_axis.hpp"

namespace stagecraft {

/// The values of a key of a condition over a sweep.
struct KeyValues {
  /// The values that an axis gives a key, by entry; nullopt if an entry does not set it.
  struct AxisValues {
    std::size_t axis = 0;
    std::vector<std::optional<ConditionValue>> values;
  };
  std::optional<ConditionValue> base;  ///< that of the base, or the default
  std::vector<AxisValues> axes;        ///< the last axis first
};

/// The defaults that do not depend on other keys.
YamlNode const& default_run();

/// The values of the key `name` of a condition, or of the group of that name.
KeyValues values_of_key(std::string const& name,
                        std::vector<SweepAxis> const& axes,
                        YamlNode const& base);

}  // namespace stagecraft
