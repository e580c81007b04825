#include "libsim/plan/schedule_summary.hpp"

#include <algorithm>

namespace stagecraft {

std::string order_text(StageSchedule const& stage) {
  std::string text;
  for (ScheduleStep const& step : stage.steps) {
    bool const is_forward = step.kind == ScheduleStep::Kind::forward;
    if (!is_forward && step.kind != ScheduleStep::Kind::backward) continue;
    if (!text.empty()) text += ' ';
    text += is_forward ? 'F' : 'B';
    text += std::to_string(step.microbatch);
    text += '.';
    text += std::to_string(step.chunk);
  }
  return text;
}

int in_flight_chunks(StageSchedule const& stage) {
  int in_flight = 0;
  int most = 0;
  for (ScheduleStep const& step : stage.steps) {
    if (step.kind == ScheduleStep::Kind::forward) most = std::max(most, ++in_flight);
    if (step.kind == ScheduleStep::Kind::backward) --in_flight;
  }
  return most;
}

}  // namespace stagecraft
