#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "libsim/run/run_variants.hpp"
#include "libsim/sweep/condition.hpp"
#include "libsim/sweep/key_values.hpp"

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
  /// Reports to `diagnostics` what check_condition() does.
  SweepFilter(std::vector<Condition> conditions,
              std::vector<SweepAxis> const& axes,
              RunVariants const& runs,
              Diagnostics& diagnostics);

  /// Whether all conditions hold. `entries`: of each axis. Threads may share it.
  /// \throws DivisionByZero
  bool passes(std::vector<std::size_t> const& entries) const;

  std::vector<Condition> const& conditions() const { return conditions_; }

 private:
  ConditionValue const& value_of(KeyValues const& key,
                                 std::vector<std::size_t> const& entries) const;
  std::vector<Condition> conditions_;
  std::vector<std::vector<KeyValues>> keys_;  ///< of each condition
};

}  // namespace stagecraft
