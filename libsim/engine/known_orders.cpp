#include "libsim/engine/known_orders.hpp"

#include <utility>

#include "libsim/schedule/generators/named_orders.hpp"
#include "libsim/schedule/schedule_layout.hpp"

namespace stagecraft {

namespace {

PipelineOrder one_f_one_b(OrderRequest const& request) {
  ScheduleShape shape;
  shape.stages = request.stages;
  shape.microbatches = request.microbatches;
  return order_of(make_pipeline_schedule(shape));
}

}  // namespace

std::vector<PipelineOrder> known_orders(OrderRequest const& request, SearchEffort const& effort) {
  SearchEffort half = effort;
  half.seconds /= 2;
  std::vector<PipelineOrder> orders;
  for (bool const joins : {false, true}) {
    OrderRequest searched = request;
    searched.joins_backward = joins;
    PipelineOrder order = search_order(searched, half).order;
    if (orders.empty() || order != orders.front()) orders.push_back(std::move(order));
  }
  double const forwards = memory_limit_of(request);
  auto const add = [&](PipelineOrder&& order) {
    if (keeps_limit(order, request.memory, forwards * request.memory.forward)) {
      orders.push_back(std::move(order));
    }
  };
  OrderRequest named = request;
  named.memory_limit = forwards;
  for (PipelineOrder& order : named_orders(named)) add(std::move(order));
  if (request.chunks == 1) add(one_f_one_b(request));
  return orders;
}

}  // namespace stagecraft
