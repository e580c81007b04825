#pragma once

#include <vector>

#include "libsim/schedule/letter_order.hpp"
#include "libsim/schedule/order_request.hpp"

namespace stagecraft {

/// The orders from which a search may begin, on one placement, all within the memory limit (which
/// is in the unit of the request's memory changes): those of the named schedules, list scheduling
/// with gradients or forwards first, and one microbatch after the other.
std::vector<LetterOrder> first_orders(OrderRequest const& request,
                                      Placement const& placement,
                                      SplitTicks const& costs,
                                      double memory_limit);

}  // namespace stagecraft
