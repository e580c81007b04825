#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "libsim/explain/change_effect.hpp"

namespace stagecraft {

/// Choices of a run that do not pay, a sentence each, decided by what their change back does:
/// those without any effect; those that cost time and save less than 1 % of the peak; those that
/// cost memory and gain less than 0.1 % of the time; those that cost at least 0.1 % of the time to
/// save memory that is there anyway (a choice is judged by the fastest way back that fits); and a
/// reserve below the default that alone lets the run fit.
std::vector<std::string> pointless_choices(RunConfig const& run,
                                           RunFigures const& figures,
                                           std::vector<ChangeEffect> const& effects);

}  // namespace stagecraft
