#pragma once

#include <stdexcept>
#include <string>
#include <utility>

#include "libsim/config/problem.hpp"

namespace stagecraft {

/// A shape, costs or an order that no schedule can have. The message says what was found and what
/// is accepted.
class ScheduleError : public std::invalid_argument {
 public:
  ScheduleError(std::string of_what, std::string found, std::string accepted)
      : ScheduleError{Problem{{}, std::move(of_what), std::move(found), std::move(accepted)}} {}

  /// The problem has no place and no key of a configuration: `key` says in words what it is about.
  Problem const& problem() const { return problem_; }

 private:
  explicit ScheduleError(Problem problem)
      : std::invalid_argument{to_string(problem)}, problem_{std::move(problem)} {}

  Problem problem_;
};

}  // namespace stagecraft
