#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

#include "libsim/config/config_node.hpp"
#include "libsim/schedule/orders/schedule_error.hpp"
#include "libsim/training/training_config.hpp"

namespace stagecraft {

/// Reports the problem of a schedule at the key that asks for the schedule.
void report(ScheduleError const& error, ConfigNode const& node);

/// A configuration and the run file that it was read from. Checks of values that constrain each
/// other derive from it.
class CombinationCheck {
 public:
  /// Both must outlive the check.
  CombinationCheck(TrainingConfig const& config, ConfigNode const& root)
      : config_{config}, root_{root} {}

 protected:
  /// Whether all these dotted keys were read without a problem.
  bool sound(std::initializer_list<std::string_view> keys) const;

  /// Reports the value of a dotted key. `value` is the default, which the message quotes if the
  /// file leaves the key out.
  void refuse(std::string_view key, std::string_view value, std::string accepted) const;
  void refuse(std::string_view key, std::int64_t value, std::string accepted) const;

  static std::string to_text(std::int64_t value) { return std::to_string(value); }

  TrainingConfig const& config_;
  ConfigNode const& root_;
};

}  // namespace stagecraft
