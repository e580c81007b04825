#include "libsim/schedule/generators/order_request.hpp"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "libsim/schedule/generators/generators.hpp"
#include "libsim/schedule/orders/schedule_error.hpp"

namespace stagecraft {

namespace {

void check_count(std::string const& what, int found) {
  if (found >= 1) return;
  throw ScheduleError{what, "'" + std::to_string(found) + "'", "a whole number from 1"};
}

PipelineOrder interleaved(OrderRequest const& request) {
  int const group = request.group > 0 ? request.group : request.stages;
  auto const make = request.expert_overlap ? expert_overlap_order : interleaved_order;
  return make(request.stages, request.microbatches, request.chunks, group);
}

/// The limit on each stage in the unit of the memory changes.
double limit_of(OrderRequest const& request, int forwards_of_1f1b) {
  check_memory(request.memory);
  return request.memory_limit.value_or(forwards_of_1f1b) * request.memory.forward;
}

PipelineOrder zbv(OrderRequest const& request) {
  int const p = request.stages;
  if (request.variant == OrderVariant::fixed) return zbv_order(p, request.microbatches);
  return zbv_auto_order(p, request.microbatches, request.costs, request.memory,
                        limit_of(request, 2 * p));
}

PipelineOrder group_interleaved(OrderRequest const& request) {
  int const usual = request.recompute_chunks > 0 ? 1 : request.stages;
  return group_interleaved_order(request.stages, request.microbatches, request.chunks,
                                 request.group > 0 ? request.group : usual,
                                 request.recompute_chunks, request.costs);
}

bool has_whole_backward(PipelineOrder const& order) {
  return std::any_of(order.stages.begin(), order.stages.end(), [](auto const& tasks) {
    return std::any_of(tasks.begin(), tasks.end(),
                       [](OrderTask const& task) { return task.run.pass == Pass::backward; });
  });
}

PipelineOrder make_as_published(OrderRequest const& request) {
  int const p = request.stages;
  int const n = request.microbatches;
  switch (request.kind) {
    case OrderKind::gpipe:
      return looped_order(p, n, request.chunks);
    case OrderKind::one_f_one_b:
    case OrderKind::order:
    case OrderKind::searched:
      break;
    case OrderKind::interleaved:
      return interleaved(request);
    case OrderKind::zb_h1:
      return request.fuse_adjacent.value_or(true) ? zb_h1_order(p, n) : unfused_zb_h1_order(p, n);
    case OrderKind::zb_h2:
      return zb_h2_order(p, n);
    case OrderKind::zb_auto:
      return zb_auto_order(p, n, request.costs, request.memory, limit_of(request, p));
    case OrderKind::interleaved_zb:
      return interleaved_zb_order(p, n, request.chunks);
    case OrderKind::zbv:
      return zbv(request);
    case OrderKind::v_half:
      return v_half_order(p, n);
    case OrderKind::v_min:
      return v_min_order(p, n);
    case OrderKind::v_auto:
      return v_auto_order(p, n, request.costs,
                          static_cast<int>(request.memory_limit.value_or(2.0 * p)));
    case OrderKind::one_f_one_b_v:
      return v_unsplit_order(p, n);
    case OrderKind::dualpipev:
      return dualpipev_order(p, n);
    case OrderKind::dualpipe:
      return dualpipe_order(p, n);
    case OrderKind::group_interleaved:
      return group_interleaved(request);
  }
  throw ScheduleError{"schedule",
                      "'" + std::string{name_of(request.kind)} + "', which no rule here orders",
                      "another name"};
}

}  // namespace

PipelineOrder make_order(OrderRequest const& request) {
  check_count("pipeline stages", request.stages);
  check_count("microbatches", request.microbatches);
  check_count("chunks per stage", request.chunks);
  PipelineOrder order = make_as_published(request);
  if (!request.fuse_adjacent) return order;
  if (*request.fuse_adjacent) return with_fused_backwards(std::move(order));
  if (has_whole_backward(order)) {
    throw ScheduleError{"fuse_adjacent", "'false'",
                        "true, as " + std::string{name_of(request.kind)} + " has whole backwards"};
  }
  return order;
}

}  // namespace stagecraft
