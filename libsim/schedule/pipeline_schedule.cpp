#include "libsim/schedule/pipeline_schedule.hpp"

namespace stagecraft {

PipelineOrder order_of(PipelineSchedule const& schedule) {
  PipelineOrder order{schedule.placement, schedule.shape.microbatches, {}};
  for (StageProgram const& program : schedule.stages) {
    auto& tasks = order.stages.emplace_back();
    visit_entries(program, [&](IssueEntry const& entry, std::int32_t advance) {
      if (entry.kind != IssueEntry::Kind::run) return;
      ChunkRun run = schedule.run_of(entry);
      run.microbatch = run.microbatch + advance;
      tasks.push_back({.run = run});
    });
  }
  return order;
}

}  // namespace stagecraft
