#pragma once

#include <memory>
#include <string>
#include <utility>

#include "libsim/config/problem.hpp"

namespace stagecraft {

/// A problem of the value of a command's option, such as `--measured`.
inline Problem option_problem(std::string const& option, std::string found, std::string accepted) {
  Problem problem;
  problem.place.origin = std::make_shared<std::string const>(option);
  problem.found = std::move(found);
  problem.accepted = std::move(accepted);
  return problem;
}

}  // namespace stagecraft
