#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "libsim/report/operation.hpp"
#include "libsim/sweep/sweep.hpp"

namespace stagecraft {

/// The names of each system that a sweep has, as names_of_system() has them: the base's first, and
/// those of axes in their order.
std::vector<std::vector<std::string>> systems_of(Sweep const& sweep);

/// The rates of a point: those of its system.
OperatingRates rates_of_point(Sweep const& sweep, SystemRates const& rates, std::int64_t point);

}  // namespace stagecraft
