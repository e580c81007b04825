#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "libsim/run/run_variants.hpp"
#include "libsim/sweep/condition/condition.hpp"
#include "libsim/sweep/key_values.hpp"
#include "libsim/sweep/sweep_axis.hpp"

namespace stagecraft {

/// Decides which points of a sweep meet its conditions.
///
/// The value of a key is that of the last axis that sets it, else that of the base, else its
/// default (for keys whose default does not depend on others). All of them are looked up once, so
/// that a point costs well below a microsecond.
class SweepFilter {
 public:
  SweepFilter() = default;
  /// Reports to `diagnostics` what check_condition() reports.
  SweepFilter(std::vector<Condition> conditions,
              std::vector<SweepAxis> const& axes,
              RunVariants const& runs,
              Diagnostics& diagnostics);

  /// Whether all conditions hold for these `entries`, one per axis. Threads may share the object.
  /// \throws DivisionByZero
  bool passes(std::vector<std::size_t> const& entries) const;

  std::vector<Condition> const& conditions() const { return conditions_; }

 private:
  ConditionValue const& value_of(KeyValues const& key,
                                 std::vector<std::size_t> const& entries) const;
  std::vector<Condition> conditions_;
  std::vector<std::vector<KeyValues>> keys_;  ///< the keys of each condition
};

}  // namespace stagecraft
