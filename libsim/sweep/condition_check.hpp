#pragma once

#include <vector>

#include "libsim/run/run_variants.hpp"
#include "libsim/sweep/condition.hpp"
#include "libsim/sweep/key_values.hpp"

namespace stagecraft {

struct SweepAxis;

/// Reports keys that nothing is known about, words where numbers are compared, and words that their
/// key never is because no configuration takes them. Nothing is said of keys that `diagnostics` has
/// problems with already. `keys`: of condition.keys(), in their order.
void check_condition(Condition const& condition,
                     std::vector<KeyValues> const& keys,
                     std::vector<SweepAxis> const& axes,
                     RunVariants const& runs,
                     Diagnostics& diagnostics);

}  // namespace stagecraft
