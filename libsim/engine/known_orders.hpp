#pragma once

#include <vector>

#include "libsim/schedule/generators/order_search.hpp"

namespace stagecraft {

/// All orders that are known for the request, within its memory limit: those of a search with split
/// backwards and of one that may join their halves, and those of the named schedules, with 1F1B and
/// interleaved 1F1B. Each search tries the changes of `effort` and takes at most half of its
/// seconds.
/// \throws ScheduleError  if there is none.
std::vector<PipelineOrder> known_orders(OrderRequest const& request, SearchEffort const& effort);

}  // namespace stagecraft
