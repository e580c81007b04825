#include "libsim/schedule/order_request.hpp"

#include <cstdint>
#include <string>

#include "libsim/schedule/dual_pipe_orders.hpp"
#include "libsim/schedule/interleaved_orders.hpp"
#include "libsim/schedule/schedule_error.hpp"
#include "libsim/schedule/split_orders.hpp"
#include "libsim/schedule/v_orders.hpp"

namespace stagecraft {

namespace {

void check_count(std::string const& what, int found) {
  if (found >= 1) return;
  throw ScheduleError{what + ": found '" + std::to_string(found) +
                      "'; accepted: a whole number from 1"};
}

PipelineOrder interleaved(OrderRequest const& request) {
  int const group = request.group > 0 ? request.group : request.stages;
  auto const make = request.expert_overlap ? expert_overlap_order : interleaved_order;
  return make(request.stages, request.microbatches, request.chunks, group);
}

}  // namespace

PipelineOrder make_order(OrderRequest const& request) {
  int const p = request.stages;
  int const n = request.microbatches;
  check_count("pipeline stages", p);
  check_count("microbatches", n);
  check_count("chunks per stage", request.chunks);
  switch (request.kind) {
    case OrderKind::gpipe:
    case OrderKind::one_f_one_b:
    case OrderKind::order:
      break;
    case OrderKind::interleaved:
      return interleaved(request);
    case OrderKind::zb_h1:
      return zb_h1_order(p, n);
    case OrderKind::zb_h2:
      return zb_h2_order(p, n);
    case OrderKind::interleaved_zb:
      return interleaved_zb_order(p, n, request.chunks);
    case OrderKind::zbv:
      return zbv_order(p, n);
    case OrderKind::dualpipev:
      return dualpipev_order(p, n);
    case OrderKind::dualpipe:
      return dualpipe_order(p, n);
  }
  throw ScheduleError{"schedule: found '" + std::string{name_of(request.kind)} +
                      "', which no rule here orders; accepted: another name"};
}

}  // namespace stagecraft
