#include "apps/stagecraft/schedule/asked_schedule.hpp"

#include <fmt/format.h>

#include <limits>
#include <utility>

#include "apps/stagecraft/schedule/schedule_request.hpp"
#include "libsim/engine/player/schedule_timeline.hpp"
#include "libsim/schedule/ordered_schedule.hpp"
#include "libsim/schedule/orders/order_timeline.hpp"
#include "libsim/schedule/schedule_layout.hpp"
#include "libsim/schedule/schedule_rules.hpp"
#include "libsim/training/training_names.hpp"
#include "libsim/units/counted.hpp"

namespace stagecraft {

namespace {

/// The kinds whose stages exchange messages as Megatron-LM issues them, blocking or not.
std::optional<ScheduleKind> issued_kind(OrderRequest const& request) {
  if (request.kind == OrderKind::gpipe) return ScheduleKind::gpipe;
  if (request.kind == OrderKind::one_f_one_b) return ScheduleKind::one_f_one_b;
  bool const is_torch_only =
      request.microbatches < request.stages && request.group == request.microbatches;
  if (request.kind == OrderKind::interleaved && !request.expert_overlap && !is_torch_only) {
    return ScheduleKind::interleaved;
  }
  return std::nullopt;
}

AskedSchedule play_issued(OrderRequest const& request,
                          ScheduleKind kind,
                          P2p p2p,
                          ChunkCosts const& costs) {
  ScheduleShape const shape{kind,           request.stages, request.microbatches,
                            request.chunks, request.group,  p2p};
  if (kind == ScheduleKind::interleaved) check_interleaved(shape);
  PipelineSchedule const schedule = make_pipeline_schedule(shape);
  ScheduleRules const& rules = rules_of(kind);
  std::string title{rules.title};
  title += ", " + counted(shape.stages, "stage") + ", " +
           counted(shape.microbatches, "microbatch", "microbatches");
  if (rules.takes_chunks) {
    title += ", " + counted(shape.chunks, "chunk") + " per stage, groups of " +
             std::to_string(schedule.shape.group);
  }
  title += p2p == P2p::blocking ? ", blocking transfers" : ", overlapped transfers";
  return {title, order_of(schedule), play_schedule(schedule, costs)};
}

AskedSchedule play_ordered(CommandLine const& line, PipelineOrder order, ChunkCosts const& costs) {
  check_ordered(line, order);
  std::string title = line.value("schedule") + ", " + counted(order.placement.stages(), "stage") +
                      ", " + counted(order.microbatches, "microbatch", "microbatches");
  if (order.placement.chunks() > 1) {
    title += ", " + counted(order.placement.chunks(), "chunk") + " per stage";
  }
  if (order.placement.copies() > 1) title += ", two copies of the parameters";
  PlayedOrder played = play_order(order, costs);
  return {title + ", overlapped transfers", std::move(order), std::move(played)};
}

AskedSchedule play_searched(CommandLine const& line, OrderRequest const& request) {
  SearchEffort effort;
  effort.seed =
      static_cast<std::uint64_t>(line.whole_number("seed", 0, std::numeric_limits<int>::max()));
  effort.iterations = line.whole_number("iterations", 0, std::numeric_limits<int>::max());
  effort.seconds = line.number_from_zero("seconds");
  FoundOrder found = search_order(request, effort);
  AskedSchedule asked = play_ordered(line, found.order, request.costs);
  asked.title += fmt::format(
      "\nno order of these costs within this memory takes less than {:g}; {} changes tried, "
      "ended by {}",
      found.lower_bound, found.iterations, name_of(found.ended_by));
  asked.found = std::move(found);
  return asked;
}

}  // namespace

AskedSchedule play_asked_schedule(CommandLine const& line) {
  line.needed("schedule", accepted_names<OrderKind>());
  auto const kind = line.word<OrderKind>("schedule");
  if (kind != OrderKind::searched) check_searched(line);
  if (kind == OrderKind::order) {
    return play_ordered(line, read_order(line), read_costs(line));
  }
  OrderRequest request = read_request(line);
  if (auto const issued = issued_kind(request)) {
    P2p const p2p = line.has("p2p") ? line.word<P2p>("p2p") : P2p::blocking;
    return play_issued(request, *issued, p2p, read_costs(line));
  }
  request.costs = read_costs(line);
  if (kind == OrderKind::searched) return play_searched(line, request);
  return play_ordered(line, make_order(request), request.costs);
}

}  // namespace stagecraft
