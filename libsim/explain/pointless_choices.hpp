#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "libsim/explain/change_effect.hpp"

namespace stagecraft {

/// The choices of a run that do not pay off, one sentence per choice. A choice is judged by the
/// change that reverts it; if there are several, by the fastest that fits. It does not pay off if
/// it has no effect, if it costs time and saves less than 1 % of the peak, if it costs memory and
/// gains less than 0.1 % of the time, or if it costs at least 0.1 % of the time to save memory that
/// is not needed. A reserve below the default is reported if the run fits only because of it.
std::vector<std::string> pointless_choices(RunConfig const& run,
                                           RunFigures const& figures,
                                           std::vector<ChangeEffect> const& effects);

}  // namespace stagecraft
