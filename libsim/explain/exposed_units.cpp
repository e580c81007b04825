#include "libsim/explain/exposed_units.hpp"

#include <algorithm>
#include <cstddef>
#include <map>
#include <tuple>

#include "libsim/engine/player/block_times.hpp"
#include "libsim/program/stream.hpp"

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

}  // namespace

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

}  // namespace stagecraft
