#include "libsim/report/schedule_tables.hpp"

#include <algorithm>
#include <cstddef>
#include <iomanip>
#include <sstream>

#include "libsim/plan/schedule_rules.hpp"
#include "libsim/plan/schedule_summary.hpp"

namespace stagecraft {

namespace {

std::string counted(int count, std::string const& one, std::string const& several) {
  return std::to_string(count) + ' ' + (count == 1 ? one : several);
}

std::string title(ScheduleShape const& shape) {
  ScheduleRules const& rules = rules_of(shape.kind);
  std::string text{rules.title};
  text += ", " + counted(shape.stages, "stage", "stages") + ", " +
          counted(shape.microbatches, "microbatch", "microbatches");
  if (rules.takes_chunks) {
    text += ", " + counted(shape.chunks, "chunk", "chunks") + " per stage, groups of " +
            std::to_string(shape.group);
  }
  return text + (shape.p2p == P2p::blocking ? ", blocking" : ", overlapped") + " transfers\n";
}

/// The order of a stage, cut between two computations if it is longer than `width`.
std::string cut_order(PipelineSchedule const& schedule, std::size_t stage, std::size_t width) {
  std::string order = order_text(schedule, stage);
  if (order.size() <= width) return order;
  std::size_t const end = order.rfind(' ', width - 4);
  return order.substr(0, end == std::string::npos ? 0 : end) + " ...";
}

}  // namespace

std::string schedule_tables(PipelineSchedule const& schedule,
                            ScheduleTimeline const& played,
                            int width) {
  std::ostringstream text;
  text << title(schedule.shape) << "makespan " << played.in_units(played.timeline.makespan)
       << ", ideal " << played.in_units(ideal_time(played.timeline)) << ", bubble "
       << std::setprecision(4) << 100 * bubble_fraction(played.timeline) << " % of ideal\n\n"
       << std::setprecision(6)
       << "rank  in flight        busy    transfer      bubble         end\n";
  for (std::size_t rank = 0; rank < schedule.stages.size(); ++rank) {
    RankTimeline const& line = played.timeline.ranks[rank];
    text << std::setw(4) << rank << std::setw(11) << in_flight_chunks(schedule, rank);
    for (SimTime const time : {line.busy, line.transfer, line.bubble, line.end}) {
      text << std::setw(12) << played.in_units(time);
    }
    text << '\n';
  }
  text << "\nrank  order: forward (F) or backward (B) of microbatch.chunk\n";
  auto const room = static_cast<std::size_t>(std::max(width, 40) - 6);
  for (std::size_t rank = 0; rank < schedule.stages.size(); ++rank) {
    text << std::setw(4) << rank << "  " << cut_order(schedule, rank, room) << '\n';
  }
  return text.str();
}

}  // namespace stagecraft
