#pragma once

#include <vector>

#include "libsim/schedule/generators/order_search.hpp"

namespace stagecraft {

/// Orders for the request within its memory limit: found by search (once with split backwards, once
/// with halves that may join), named schedules, 1F1B and interleaved 1F1B. Each search tries the
/// changes of `effort` and takes at most half of its seconds.
/// \throws ScheduleError  if there is none.
std::vector<PipelineOrder> known_orders(OrderRequest const& request, SearchEffort const& effort);

}  // namespace stagecraft
