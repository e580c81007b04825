#include "libsim/engine/store_window.hpp"

#include <algorithm>
#include <cstdint>

#include "libsim/cost/cost_model.hpp"
#include "libsim/plan/plan_programs.hpp"
#include "libsim/plan/window_memory.hpp"

namespace stagecraft {
bool has_automatic_window(TrainingConfig const& config) {
  return std::any_of(config.recompute.begin(), config.recompute.end(),
                     [](auto const& policy) { return policy.store_microbatches.automatic; });
}

TrainingConfig resolve_store_windows(TrainingConfig config, System const& system) {
  if (!has_automatic_window(config)) return config;
  auto const stages = static_cast<std::size_t>(config.parallel.pipeline);
  if (config.recompute.size() == 1) config.recompute.resize(stages, config.recompute.front());
  TrainingConfig stored = config;
  for (RecomputePolicy& policy : stored.recompute) {
    if (policy.store_microbatches.automatic) policy.store_microbatches = {.count = 1};
  }
  TrainingPlan const plan = make_programs(stored);
  CostModel const cost{system, plan};
  TaskMemories tasks{plan};
  MessageMoves messages{plan};
  PipelineSchedule const schedule = make_pipeline_schedule(schedule_shape(config));
  std::int64_t const limit = system.accelerator.memory.value.count() -
                             config.memory.kept_in_reserve().count() - cost.workspace().count();
  for (std::size_t r = 0; r < stages; ++r) {
    StoreMicrobatches& wanted = config.recompute[r].store_microbatches;
    if (!wanted.automatic) continue;
    WindowMemory const memory{plan, schedule, plan.stages[StageId::of_index(r)], tasks, messages};
    // From the top: storing one more can lower a peak that recomputation makes, so that a number
    // that does not fit says nothing of the larger ones.
    wanted = {.count = memory.window()};
    while (wanted.count > 0 && !memory.fits(wanted.count, limit)) --wanted.count;
  }
  bool const is_uniform =
      std::equal(config.recompute.begin() + 1, config.recompute.end(), config.recompute.begin());
  if (is_uniform) config.recompute.resize(1);
  return config;
}

}  // namespace stagecraft
