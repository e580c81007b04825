#pragma once

#include "libsim/schedule/chunk_costs.hpp"
#include "libsim/schedule/order_kind.hpp"
#include "libsim/schedule/pipeline_order.hpp"

namespace stagecraft {

/// What the order of a named schedule follows from.
struct OrderRequest {
  OrderKind kind = OrderKind::zb_h1;
  int stages = 1;        ///< p
  int microbatches = 1;  ///< n, of one replica in one iteration; over both directions of dualpipe
  int chunks = 1;        ///< per stage; kinds with a fixed number ignore it
  int group = 0;         ///< interleaved: microbatches per group; 0 means p
  bool expert_overlap = false;  ///< interleaved: pairs of a forward and a backward
};

/// The order of a named schedule, as the public code of the schedule makes it; its source is beside
/// each generator (split_orders.hpp and so on).
/// \throws ScheduleError  if no order exists for the numbers; it says which are accepted.
PipelineOrder make_order(OrderRequest const& request);

}  // namespace stagecraft
