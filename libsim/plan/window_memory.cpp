#include "libsim/plan/window_memory.hpp"

#include <cstddef>
#include <span>

#include "libsim/plan/stage_memory.hpp"
#include "libsim/plan/stage_tasks.hpp"

namespace stagecraft {

// The step's tasks move no memory, and a backward whose gradients are reduced piece by piece moves
// it as the whole does, so that the schedule and the chunks' programs are enough.
WindowMemory::WindowMemory(TrainingPlan const& plan,
                           PipelineSchedule const& schedule,
                           StagePlan const& stage,
                           TaskMemories& tasks,
                           MessageMemories& messages)
    : resident_{resident_memory(stage).sum()}, window_{store_window(schedule.shape, stage.stage)} {
  StageProgram const& program = schedule.stages[stage.stage];
  std::span<Transfer const> const transfers{program.transfers};
  WindowPlaces places{schedule.shape, stage.stage};
  visit_entries(program, [&](IssueEntry const& entry, std::int32_t advance) {
    switch (entry.kind) {
      case IssueEntry::Kind::run: {
        ChunkRun run = schedule.run_of(entry);
        run.microbatch = run.microbatch + advance;
        changes_.push_back({places.of(run),
                            &tasks.of(whole_task(plan, stage, run, TaskVariant::stored)),
                            &tasks.of(whole_task(plan, stage, run, TaskVariant::policy))});
        break;
      }
      case IssueEntry::Kind::post:
      case IssueEntry::Kind::wait: {
        MemoryMove const& move =
            messages.of(entry.kind, transfers.subspan(static_cast<std::size_t>(entry.first),
                                                      static_cast<std::size_t>(entry.count)));
        changes_.push_back({0, &move, &move});
        break;
      }
      case IssueEntry::Kind::drain:
      case IssueEntry::Kind::repeat:
        break;
    }
  });
}

bool WindowMemory::fits(int count, std::int64_t limit) const {
  std::int64_t now = resident_;
  if (now > limit) return false;
  for (Change const& change : changes_) {
    MemoryMove const& move = change.place < count ? *change.stored : *change.recomputed;
    if (now + move.profile.peak > limit) return false;
    now += move.net_sum;
  }
  return true;
}

}  // namespace stagecraft
