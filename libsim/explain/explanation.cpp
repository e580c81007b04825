#include "libsim/explain/explanation.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "libsim/engine/fullest_stage.hpp"
#include "libsim/engine/settle.hpp"
#include "libsim/explain/paired_changes.hpp"
#include "libsim/explain/pointless_choices.hpp"
#include "libsim/explain/sharding_changes.hpp"
#include "libsim/explain/single_changes.hpp"
#include "libsim/host/interruption.hpp"
#include "libsim/plan/make_plan.hpp"
#include "libsim/report/run_verdict.hpp"

namespace stagecraft {

Explanation explain(RunConfig const& run, ExplainOptions const& options) {
  int const jobs = options.jobs;
  Explanation result;
  result.plan = make_plan(settled(run.training, run.system));
  {
    // All times of a long iteration take much memory: they are gone before changes are simulated.
    PlayedIteration const played{result.plan, run.system};
    result.simulation = played.simulation;
    result.path = find_critical_path(played.costed, played.times);
    result.busiest = kinds_of_busiest_stage(played.costed, played.times, result.simulation);
    result.exposed = exposed_units(result.plan, played.costed.cost());
  }
  throw_if_interrupted();
  result.peak =
      explain_peak(result.plan, result.simulation, fullest_stage(result.simulation.stages));
  add_reservations(result.simulation, result.plan, run.system, jobs);
  auto const tightest =
      std::ranges::min_element(result.simulation.stages, {}, &StageResult::margin);
  result.reserved = explain_reserved(result.plan, run.system, *tightest);
  throw_if_interrupted();
  result.figures = figures_of(run);
  if (verdict_of(result.simulation) == Verdict::does_not_fit && result.figures.fits()) {
    // Another stage than the fullest is the one whose replay runs out.
    result.figures.runs_out = true;
    result.figures.verdict = Verdict::does_not_fit;
    result.figures.room = tightest->margin;
  }
  std::vector<Change> changes = single_changes(run.training, run.system);
  std::ranges::move(offload_changes(run.training, run.system), std::back_inserter(changes));
  std::vector<ChangeEffect> effects = simulate_changes(run, changes, jobs, options.progress);
  result.pointless = pointless_choices(run, result.figures, effects);
  result.effects = distinct_effects(std::move(effects));
  result.best = best_changes(result.figures, result.effects);
  if (!options.has_pairs) return result;
  result.pairs = simulate_pairs(run, result.effects, jobs, options.progress);
  result.best_pairs = best_changes(result.figures, *result.pairs);
  return result;
}

}  // namespace stagecraft
