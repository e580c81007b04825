#include "libsim/plan/window_memory.hpp"

#include <algorithm>
#include <cstddef>
#include <span>

#include "libsim/plan/repeated_windows.hpp"
#include "libsim/plan/stage_memory.hpp"
#include "libsim/plan/stage_tasks.hpp"
#include "libsim/plan/store_window.hpp"

namespace stagecraft {

// The step's tasks move no memory, and a backward whose gradients are reduced piece by piece moves
// it as the whole does, so that the schedule and the chunks' programs are enough.
WindowMemory::WindowMemory(TrainingPlan const& plan,
                           PipelineSchedule const& schedule,
                           StagePlan const& stage,
                           TaskMemories& tasks,
                           MessageMemories& messages)
    : resident_{resident_memory(stage).sum()}, window_{store_window(schedule.shape, stage.stage)} {
  int const some = 1;  // of a window: what repeats with one repeats with every number
  RepeatedWindows const windows =
      plan.microbatch_stride == 0 ? repeat_windows(schedule, stage.stage, some)
                                  : RepeatedWindows{.order = unroll(schedule.stages[stage.stage])};
  IssueOrder const& order = windows.order;
  std::span<Transfer const> const transfers{order.transfers};
  WindowPlaces places{schedule.shape, stage.stage};
  changes_.reserve(order.entries.size());
  times_ = windows.times;
  for (std::size_t i = 0; i < order.entries.size(); ++i) {
    if (static_cast<std::int32_t>(i) == windows.body_begin) body_begin_ = changes_.size();
    if (static_cast<std::int32_t>(i) == windows.body_end) body_end_ = changes_.size();
    IssueEntry const& entry = order.entries[i];
    switch (entry.kind) {
      case IssueEntry::Kind::run: {
        ChunkRun const run = schedule.run_of(entry);
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
  }
}

bool WindowMemory::fits(int count, std::int64_t limit) const {
  std::int64_t now = resident_;
  if (now > limit) return false;
  auto const holds = [&](std::size_t begin, std::size_t end) {
    return std::all_of(
        changes_.begin() + static_cast<std::ptrdiff_t>(begin),
        changes_.begin() + static_cast<std::ptrdiff_t>(end), [&](Change const& change) {
          MemoryMove const& move = change.place < count ? *change.stored : *change.recomputed;
          bool const is_within = now + move.profile.peak <= limit;
          now += move.net_sum;
          return is_within;
        });
  };
  if (times_ == 1) return holds(0, changes_.size());
  if (!holds(0, body_begin_)) return false;
  std::int64_t const before = now;
  if (!holds(body_begin_, body_end_)) return false;
  // Each repeat changes memory by the same amounts, so the peak is in the first or in the last.
  std::int64_t const gained = now - before;
  if (gained != 0) {
    now += (times_ - 2) * gained;
    if (!holds(body_begin_, body_end_)) return false;
  }
  return holds(body_end_, changes_.size());
}

}  // namespace stagecraft
