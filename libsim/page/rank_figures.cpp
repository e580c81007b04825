#include "libsim/page/rank_figures.hpp"

#include <cmath>
#include <vector>

#include "libsim/cost/cost_model.hpp"
#include "libsim/engine/player/costed_plan.hpp"
#include "libsim/plan/fingerprint.hpp"
#include "libsim/plan/make_plan.hpp"
#include "libsim/schedule/orders/schedule_error.hpp"
#include "libsim/trace/trace_sums.hpp"

namespace stagecraft {

namespace {

std::int64_t recompute_in(RankTrace const& rank,
                          std::size_t row,
                          KnownNames const& names,
                          RecomputeShares const& shares) {
  OpColumns const& ops = rank.ops;
  auto const phase = names.phase(ops.phase[row]);
  if (phase == TracePhase::recompute) return ops.duration[row];
  if (!names.is_whole_chunk(ops.op[row]) || !may_recompute(phase)) return 0;
  double const share =
      static_cast<double>(shares.millionths(rank.stage, ops.microbatch[row], ops.chunk[row])) *
      1e-6;
  return static_cast<std::int64_t>(static_cast<double>(ops.duration[row]) * share);
}

}  // namespace

RecomputeShares::RecomputeShares(RunConfig const& config) {
  TrainingPlan const plan = make_plan(as_settled(config.training));
  CostedPlan const costed{plan, config.system};
  for (std::size_t rank = 0; rank < plan.stages.size(); ++rank) {
    StagePlan const& rank_plan = plan.stages[StageId::of_index(rank)];
    std::vector<TaskProfile> const& profiles = costed.tasks(rank);
    visit_entries(rank_plan.program, [&](IssueEntry const& entry, std::int32_t advance) {
      if (entry.kind != IssueEntry::Kind::run) return;
      auto const index = static_cast<std::size_t>(entry.task);
      Task const& task = rank_plan.tasks[index];
      TaskProfile const& profile = profiles[index];
      bool const may_recompute =
          task.kind == Task::Kind::backward || task.kind == Task::Kind::input_gradient;
      // The row of the pass is without what waits for the host, or for units.
      SimTime const exposed = profile.shares.data_parallel - profile.host_waits.data_parallel;
      SimTime const computed = profile.duration - profile.host_waits.sum() - exposed;
      if (!may_recompute || computed == SimTime{0}) return;
      SimTime const recomputed = profile.shares.recompute - profile.host_waits.recompute;
      double const share =
          static_cast<double>(recomputed.count()) / static_cast<double>(computed.count());
      shares_[{rank_plan.stage.value(), (entry.microbatch + advance).value(), task.chunk.value()}] =
          std::llround(share * 1e6);
    });
  }
}

std::int64_t RecomputeShares::millionths(std::int32_t stage,
                                         std::int64_t microbatch,
                                         std::int64_t chunk) const {
  auto const found = shares_.find({stage, microbatch, chunk});
  return found == shares_.end() ? 0 : found->second;
}

RecomputeShares recompute_shares_of(TraceMeta const& meta, RunConfig const& config) {
  try {
    if (fingerprint(make_plan(as_settled(config.training))) != meta.plan) return {};
    return RecomputeShares{config};
  } catch (CostError const&) {
    return {};
  } catch (ScheduleError const&) {
    return {};
  }
}

RankFigures figures_of(RankTrace const& rank,
                       KnownNames const& names,
                       RecomputeShares const& shares) {
  RankFigures figures;
  figures.rank = rank.rank;
  figures.stage = rank.stage;
  OpColumns const& ops = rank.ops;
  for (std::size_t row = 0; row < ops.rows(); ++row) {
    figures.has_whole_chunks = figures.has_whole_chunks || names.is_whole_chunk(ops.op[row]);
    if (names.stream(ops.stream[row]) != Stream::compute) continue;
    figures.recompute = bounded_sum(figures.recompute, recompute_in(rank, row, names, shares));
  }
  figures.times = stream_times(rank, names);
  MemoryPeak const peak = peak_of(rank.memory);
  figures.at_peak = peak.at_peak;
  figures.peak_time = peak.time;
  return figures;
}

}  // namespace stagecraft
