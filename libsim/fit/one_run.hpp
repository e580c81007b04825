#pragma once

#include <string>

#include "libsim/hardware/software.hpp"

namespace stagecraft {

/// Says of a factor of the stack, and by the stack's name, that it was fitted to one run.
inline void mark_as_fitted(Software& software, Sourced<double>& factor, std::string const& run) {
  factor.fitted = std::string{one_measurement} + run + "; no other run was held against it";
  if (!software.name.ends_with(fitted_ending)) software.name += fitted_ending;
}

}  // namespace stagecraft
