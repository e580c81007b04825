#include "libsim/schedule/generators/named_orders.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "libsim/schedule/orders/schedule_error.hpp"

namespace stagecraft {

std::vector<PipelineOrder> named_orders(OrderRequest const& request) {
  std::vector<PipelineOrder> orders;
  for (OrderKind const kind :
       {OrderKind::zb_h1, OrderKind::zb_h2, OrderKind::zb_auto, OrderKind::interleaved,
        OrderKind::interleaved_zb, OrderKind::zbv, OrderKind::v_half, OrderKind::v_min,
        OrderKind::one_f_one_b_v, OrderKind::dualpipev, OrderKind::group_interleaved}) {
    for (OrderVariant const variant : {OrderVariant::fixed, OrderVariant::automatic}) {
      if (variant == OrderVariant::automatic && kind != OrderKind::zbv) continue;
      for (std::optional<bool> const fuse_adjacent : {std::optional<bool>{}, {false}}) {
        if (fuse_adjacent && kind != OrderKind::zb_h1) continue;
        OrderRequest named = request;
        named.kind = kind;
        named.variant = variant;
        named.fuse_adjacent = fuse_adjacent;
        try {
          PipelineOrder order = make_order(named);
          if (order.placement.chunks() == request.chunks) orders.push_back(std::move(order));
        } catch (ScheduleError const&) {  // a schedule that does not take these numbers
        }
      }
    }
  }
  return orders;
}

bool keeps_limit(PipelineOrder const& order, MemoryChanges const& memory, double memory_limit) {
  double const limit = memory_limit * (1 + 1e-9);  // sums of decimal changes are rounded
  return std::all_of(order.stages.begin(), order.stages.end(), [&](auto const& tasks) {
    double held = 0;
    double most = 0;
    for (OrderTask const& task : tasks) {
      if (task.run.pass == Pass::forward) held += memory.forward;
      if (gives_gradient(task.run.pass)) held += memory.input_gradient;
      most = std::max(most, held);
      if (ends_in_flight(task.run.pass)) held += memory.weight_gradient;
    }
    return most <= limit;
  });
}

}  // namespace stagecraft
