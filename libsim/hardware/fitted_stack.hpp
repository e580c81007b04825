#pragma once

#include <string>
#include <string_view>

#include "libsim/hardware/software.hpp"

namespace stagecraft {

/// What `fit --measured` calls a stack: the name of the one that it began with, and this.
inline constexpr std::string_view fitted_ending = "-fitted";

/// How `software.factor` says that it was fitted to one measured iteration.
inline constexpr std::string_view one_measurement = "on one measurement of ";

/// The stack whose measured runs tell about this one: itself, or the one that it was fitted from.
inline std::string_view described_stack(Software const& software) {
  std::string_view name = software.name;
  if (name.ends_with(fitted_ending)) name.remove_suffix(fitted_ending.size());
  return name;
}

inline bool is_fitted_to_one_run(Software const& software) {
  return software.factor.fitted.starts_with(one_measurement);
}

}  // namespace stagecraft
