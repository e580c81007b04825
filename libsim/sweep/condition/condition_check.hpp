#pragma once

#include <vector>

#include "libsim/run/run_variants.hpp"
#include "libsim/sweep/condition/condition.hpp"
#include "libsim/sweep/key_values.hpp"
#include "libsim/sweep/sweep_axis.hpp"

namespace stagecraft {

/// Reports unknown keys, words in comparisons of numbers, and words that their key can never have
/// because no configuration accepts them. Skips keys of which `diagnostics` already has problems.
/// `keys` are the values of condition.keys(), in their order.
void check_condition(Condition const& condition,
                     std::vector<KeyValues> const& keys,
                     std::vector<SweepAxis> const& axes,
                     RunVariants const& runs,
                     Diagnostics& diagnostics);

}  // namespace stagecraft
