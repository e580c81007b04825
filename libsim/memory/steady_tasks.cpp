#include "libsim/memory/steady_tasks.hpp"

#include "libsim/schedule/program_reader.hpp"

namespace stagecraft {

SteadyTasks::SteadyTasks(StagePlan const& stage)
    : stage_{stage}, last_run_(stage.tasks.size(), -1), has_run_(stage.tasks.size(), false) {
  int in_flight = 0;
  int most = -1;
  ProgramReader reader{stage.program};
  while (reader.next()) {
    IssueEntry const& entry = reader.entry();
    if (entry.kind != IssueEntry::Kind::run) continue;
    last_run_[static_cast<std::size_t>(entry.task)] = reader.number();
    Task const& task = stage.tasks[static_cast<std::size_t>(entry.task)];
    if (task.kind == Task::Kind::forward && ++in_flight > most) {
      most = in_flight;
      fullest_ = reader.number();
    }
    if (ends_in_flight(task)) --in_flight;
  }
}

bool SteadyTasks::is_reached_by(std::int32_t index, Task const* run) {
  if (index < fullest_ || run == nullptr) return false;
  has_run_[static_cast<std::size_t>(run - stage_.tasks.data())] = true;
  if (!ends_in_flight(*run)) return false;
  for (std::size_t task = 0; task < last_run_.size(); ++task) {
    bool const computes = stage_.tasks[task].kind != Task::Kind::step;
    if (computes && last_run_[task] > index && !has_run_[task]) return false;
  }
  return true;
}

}  // namespace stagecraft
