#include "libsim/plan/schedule_summary.hpp"

#include <algorithm>

namespace stagecraft {

std::string order_text(PipelineSchedule const& schedule, std::size_t stage) {
  std::string text;
  visit_entries(schedule.stages[stage], [&](IssueEntry const& entry, std::int32_t advance) {
    if (entry.kind != IssueEntry::Kind::run) return;
    ChunkRun const run = schedule.run_of(entry);
    if (!text.empty()) text += ' ';
    text += facts_of(run.part).letter;
    text += std::to_string(run.microbatch + advance);
    text += '.';
    text += std::to_string(run.chunk);
  });
  return text;
}

int in_flight_chunks(PipelineSchedule const& schedule, std::size_t stage) {
  int in_flight = 0;
  int most = 0;
  visit_entries(schedule.stages[stage], [&](IssueEntry const& entry, std::int32_t /*advance*/) {
    if (entry.kind != IssueEntry::Kind::run) return;
    in_flight += facts_of(schedule.run_of(entry).part).in_flight;
    most = std::max(most, in_flight);
  });
  return most;
}

}  // namespace stagecraft
