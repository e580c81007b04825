#pragma once

#include <vector>

#include "libsim/schedule/generators/order_request.hpp"
#include "libsim/schedule/orders/letter_order.hpp"

namespace stagecraft {

/// The orders from which a search may begin, on one placement and within the memory limit, which is
/// in the unit of the request's memory changes. They are the orders of named_orders(), those of
/// list scheduling with gradients or forwards first and with split or whole backwards, and one that
/// runs one microbatch after the other.
std::vector<LetterOrder> first_orders(OrderRequest const& request,
                                      Placement const& placement,
                                      StageTicks const& costs,
                                      std::vector<PipelineOrder> const& named,
                                      double memory_limit);

}  // namespace stagecraft
