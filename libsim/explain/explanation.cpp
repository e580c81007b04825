#include "libsim/explain/explanation.hpp"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <map>
#include <tuple>
#include <utility>

#include "libsim/engine/fullest_stage.hpp"
#include "libsim/engine/player/block_times.hpp"
#include "libsim/engine/settle.hpp"
#include "libsim/explain/paired_changes.hpp"
#include "libsim/explain/pointless_choices.hpp"
#include "libsim/explain/sharding_changes.hpp"
#include "libsim/explain/single_changes.hpp"
#include "libsim/host/interruption.hpp"
#include "libsim/plan/make_plan.hpp"
#include "libsim/program/stream.hpp"
#include "libsim/report/run_verdict.hpp"

namespace stagecraft {
namespace {

using WaitKey = std::tuple<Pass, BlockProgram::Kind, bool>;
using Sums = std::map<WaitKey, SimTime>;

/// Adds what a pass waits, so many times.
void add_waits(
    Sums& sums, BlockProgram const& block, Pass pass, CostModel const& cost, std::int64_t times) {
  PassTimes const of_pass = time_pass(block, pass, cost);
  std::vector<Op> const& ops = block.ops(pass);
  for (std::size_t i = 0; i < ops.size(); ++i) {
    if (ops[i].kind != OpKind::wait) continue;
    Op const& awaited = ops[static_cast<std::size_t>(ops[i].waits_for)];
    if (kind_of(awaited.stream) != StreamKind::units) continue;
    sums[{pass, block.kind, awaited.kind == OpKind::all_gather}] +=
        times * (of_pass.end[i] - of_pass.start[i]);
  }
}

/// What no computation hides, the longest first; copies of gathered parameters are not counted.
/// Empty if the plan has no such units.
std::vector<ExposedUnits> exposed_units(TrainingPlan const& plan, CostModel const& cost) {
  if (!plan.config.sharding.has_units()) return {};
  // Microbatches with programs of their own have their chunks one after the other.
  std::int64_t const times = plan.microbatch_stride == 0 ? microbatches(plan.config) : 1;
  std::vector<std::int64_t> runs(plan.programs.blocks.size());
  for (ChunkProgram const& chunk : plan.programs.chunks) {
    for (std::int32_t const block : chunk.blocks) runs[static_cast<std::size_t>(block)] += times;
  }
  Sums sums;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    if (runs[i] == 0) continue;
    for (Pass const pass : {Pass::forward, Pass::backward}) {
      add_waits(sums, plan.programs.blocks[i], pass, cost, runs[i]);
    }
  }
  std::vector<ExposedUnits> exposed;
  for (auto const& [key, seconds] : sums) {
    if (seconds == SimTime{0}) continue;
    auto const& [pass, block, is_gather] = key;
    exposed.push_back({pass, block, is_gather, seconds});
  }
  std::ranges::stable_sort(exposed, std::ranges::greater{}, &ExposedUnits::seconds);
  return exposed;
}

}  // namespace

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
