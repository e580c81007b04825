#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "libsim/run/run_variants.hpp"
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

/// Defaults of the keys outside the model, whose defaults depend on each other.
YamlNode const& default_run();

/// Reports keys that nothing is known about, words where numbers are compared, and words that their
/// key never is because no configuration takes them. Nothing is said of keys that `diagnostics` has
/// problems with already. `keys`: of condition.keys(), in their order.
void check_condition(Condition const& condition,
                     std::vector<KeyValues> const& keys,
                     std::vector<SweepAxis> const& axes,
                     RunVariants const& runs,
                     Diagnostics& diagnostics);

}  // namespace stagecraft
