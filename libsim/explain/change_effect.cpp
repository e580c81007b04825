#include "libsim/explain/change_effect.hpp"

#include <algorithm>
#include <mutex>
#include <utility>

#include "libsim/config/problem.hpp"
#include "libsim/engine/fullest_stage.hpp"
#include "libsim/engine/outside_memory.hpp"
#include "libsim/engine/prediction.hpp"
#include "libsim/engine/settle.hpp"
#include "libsim/engine/stage_allocators.hpp"
#include "libsim/engine/verdict.hpp"
#include "libsim/host/worker_pool.hpp"
#include "libsim/plan/make_plan.hpp"
#include "libsim/plan/plan_programs.hpp"
#include "libsim/run/config_files.hpp"
#include "libsim/schedule/orders/schedule_error.hpp"
#include "libsim/schedule/schedule_layout.hpp"
#include "libsim/schedule/store_window.hpp"
#include "libsim/training/run_schedule.hpp"

namespace stagecraft {
namespace {

/// Key, found and accepted of each problem, without its place, which is not in a file of the user.
std::string problems_of(ConfigError const& error) {
  std::string text;
  for (Problem problem : error.problems()) {
    problem.place = Place{};
    text += (text.empty() ? "" : "; ") + to_string(problem);
  }
  return text;
}

/// The configuration with windows resolved and one policy per stage, which is `none` if the stage's
/// window stores everything.
TrainingConfig settled_by_stage(RunConfig const& run) {
  TrainingConfig training = settled_with_stack(settled(run.training, run.system).get());
  auto const stages = static_cast<std::size_t>(training.parallel.pipeline);
  if (training.recompute.size() == 1) training.recompute.resize(stages, training.recompute.front());
  ScheduleShape const shape = checked_shape(schedule_shape(training));
  for (std::size_t stage = 0; stage < stages; ++stage) {
    RecomputePolicy& policy = training.recompute[stage];
    bool const stores_all =
        policy.store_microbatches.count >= store_window(shape, StageId::of_index(stage));
    if (!stores_all) continue;
    policy = {};
    policy.early_stop = training.stack.early_stop;
  }
  return training;
}

/// A change and the changed run, which is absent if the change is not legal.
struct Trial {
  ChangeEffect effect;
  std::optional<TrainingConfig> training;
};

Trial simulate_change(std::string const& yaml, Change const& change) {
  Trial trial;
  trial.effect.change = change;
  try {
    RunConfig changed = parse_run_config(yaml, "the run", change.set);
    changed.training = settled(changed.training, changed.system).get();
    trial.effect.figures = figures_of(changed);
    trial.training = settled_by_stage(changed);
  } catch (ConfigError const& error) {
    trial.effect.refusal = problems_of(error);
  } catch (ScheduleError const& error) {  // an order that depends on costs is made late
    trial.effect.refusal = error.what();
  }
  return trial;
}

void add_reserved(RunFigures& figures,
                  Prediction const& prediction,
                  TrainingPlan const& plan,
                  System const& system) {
  StageAllocators const allocators{plan, system};
  std::int64_t margin = system.accelerator.memory.value.count();
  auto verdict = Verdict::fits;
  figures.is_by_allocator = decides_by_allocator(system.software);
  for (StageId const stage : plan.stages.ids()) {
    // If the framework is not described, the fullest stage shows what an allocator adds.
    if (!figures.is_by_allocator && stage.value() != figures.fullest_stage) continue;
    ReservedStage const reserved = allocators.reserve(stage, prediction.stages[stage.index()].rank);
    figures.reserved = std::max(figures.reserved, reserved.reservation.reserved);
    margin = std::min(margin, reserved.margin);
    verdict = std::max(verdict, reserved.verdict);
  }
  figures.runs_out = !figures.is_by_allocator && figures.fits() && verdict == Verdict::does_not_fit;
  if (!figures.is_by_allocator && !figures.runs_out) return;
  figures.room = margin;
  figures.verdict = verdict;
}

}  // namespace

RunFigures figures_of(RunConfig const& run) {
  SettledConfig const training = settled(run.training, run.system);
  Prediction const prediction = predict(training, run.system);
  std::size_t const fullest = fullest_stage(prediction.stages);
  std::int64_t const peak = prediction.stages[fullest].peak();
  RunFigures figures{.iteration = prediction.iteration,
                     .peak = peak,
                     .fullest_stage = static_cast<std::int32_t>(fullest),
                     .room = room_for(training->memory, run.system.accelerator).count() - peak};
  figures.verdict = figures.fits() ? Verdict::fits : Verdict::does_not_fit;
  TrainingPlan const plan = make_plan(training);
  add_reserved(figures, prediction, plan, run.system);
  if (fullest_host(plan, run.system) > run.system.node.host_memory.value) {
    figures.verdict = Verdict::does_not_fit;
  }
  return figures;
}

std::vector<ChangeEffect> simulate_changes(RunConfig const& run,
                                           std::vector<Change> const& changes,
                                           int jobs,
                                           TrialProgress const& progress) {
  std::string const yaml = to_unsettled_yaml(run);
  std::vector<Trial> trials(changes.size());
  std::mutex reporting;
  std::size_t done = 0;
  parallel_for(jobs, changes.size(), [&](std::size_t i) {
    trials[i] = simulate_change(yaml, changes[i]);
    std::scoped_lock const lock{reporting};
    progress(++done, changes.size());
  });
  TrainingConfig const own = settled_by_stage(run);
  std::vector<ChangeEffect> effects;
  for (auto trial = trials.begin(); trial != trials.end(); ++trial) {
    ChangeEffect& effect = effects.emplace_back(std::move(trial->effect));
    if (!trial->training) continue;
    effect.is_same_run = *trial->training == own;
    effect.is_repetition = std::any_of(trials.begin(), trial, [&](Trial const& earlier) {
      return earlier.training == trial->training;
    });
  }
  return effects;
}

std::vector<ChangeEffect> distinct_effects(std::vector<ChangeEffect> effects) {
  std::erase_if(effects, [](ChangeEffect const& effect) {
    return effect.is_same_run || effect.is_repetition;
  });
  return effects;
}

BestChanges best_changes(RunFigures const& run, std::vector<ChangeEffect> const& effects) {
  BestChanges best;
  SimTime fastest = run.fits() ? run.iteration : SimTime::max();
  std::int64_t smallest = run.peak;
  std::int64_t cheapest = run.peak - run.peak / 100;
  SimTime const longest = run.iteration + run.iteration / 100;
  for (std::size_t i = 0; i < effects.size(); ++i) {
    if (!effects[i].figures) continue;
    RunFigures const& figures = *effects[i].figures;
    if (figures.fits() && figures.iteration < fastest) {
      fastest = figures.iteration;
      best.fastest = i;
    }
    if (figures.iteration <= 2 * run.iteration && figures.peak < smallest) {
      smallest = figures.peak;
      best.smallest = i;
    }
    if (figures.iteration <= longest && figures.peak < cheapest) {
      cheapest = figures.peak;
      best.cheapest = i;
    }
  }
  return best;
}

}  // namespace stagecraft
