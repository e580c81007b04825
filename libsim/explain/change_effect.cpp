#include "libsim/explain/change_effect.hpp"

#include <algorithm>

#include "libsim/config/problem.hpp"
#include "libsim/engine/prediction.hpp"
#include "libsim/engine/store_window.hpp"
#include "libsim/search/parallel_for.hpp"

namespace stagecraft {
namespace {

/// Key, found and accepted of each problem; their place is in a text that nobody has written.
std::string text_of(ConfigError const& error) {
  std::string text;
  for (Problem problem : error.problems()) {
    problem.place = Place{};
    text += (text.empty() ? "" : "; ") + to_string(problem);
  }
  return text;
}

ChangeEffect simulate_change(RunConfig const& run, std::string const& yaml, Change const& change) {
  ChangeEffect effect{.change = change, .figures = {}, .refusal = "", .is_same_run = false};
  try {
    RunConfig const changed = parse_run_config(yaml, "the run", change.set);
    effect.is_same_run = changed.training == run.training;
    effect.figures = figures_of(changed);
  } catch (ConfigError const& error) {
    effect.refusal = text_of(error);
  }
  return effect;
}

}  // namespace

RunFigures figures_of(RunConfig const& run) {
  TrainingConfig const training = resolve_store_windows(run.training, run.system);
  Prediction const prediction = predict(training, run.system);
  auto const fullest = std::max_element(
      prediction.stages.begin(), prediction.stages.end(),
      [](StagePrediction const& a, StagePrediction const& b) { return a.peak() < b.peak(); });
  std::int64_t const peak = fullest->peak();
  return {
      .iteration = prediction.iteration,
      .peak = peak,
      .fullest_stage = static_cast<std::int32_t>(fullest - prediction.stages.begin()),
      .room = run.system.accelerator.memory.value.count() - training.memory.reserve.count() - peak};
}

std::vector<ChangeEffect> simulate_changes(RunConfig const& run,
                                           std::vector<Change> const& changes,
                                           int jobs) {
  std::string const yaml = to_yaml(run);
  std::vector<ChangeEffect> effects(changes.size());
  parallel_for(jobs, changes.size(),
               [&](std::size_t i) { effects[i] = simulate_change(run, yaml, changes[i]); });
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
