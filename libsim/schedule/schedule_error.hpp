#pragma once

#include <stdexcept>

namespace stagecraft {

/// A shape, costs or an order that no schedule can have. The message says what was found and what
/// is accepted.
class ScheduleError : public std::invalid_argument {
 public:
  using std::invalid_argument::invalid_argument;
};

}  // namespace stagecraft
