#include "libsim/engine/composed_iteration.hpp"

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <stdexcept>
#include <string>

#include "libsim/trace/trace_names.hpp"

namespace stagecraft {
namespace {

bool is_of_a_task(RankTrace const& trace, std::size_t row) {
  return trace.ops.phase[row] != static_cast<std::int64_t>(TracePhase::transfer) &&
         trace.ops.op[row] != TraceVocabulary::iteration_overhead;
}

/// Whether a row says what the pass of row `first` waits for: the host, or units.
bool is_wait_of(RankTrace const& trace, std::size_t first, std::size_t row) {
  OpColumns const& ops = trace.ops;
  constexpr auto units = static_cast<std::int64_t>(TracePhase::data_parallel);
  return ops.op[row] == TraceVocabulary::host_wait ||
         (ops.op[row] == ops.op[first] && ops.phase[row] == units && ops.phase[first] != units);
}

SimTime median(std::vector<std::int64_t>& times) {
  auto const middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  return SimTime{*middle};
}

/// Whether two tasks do the same on stages that are alike. Their programs may have other numbers.
bool are_alike(Task const& a, Task b) {
  b.program = a.program;
  return a == b;
}

using MeasuredStages = std::map<StageId, std::vector<MeasuredTask>>;

/// The stage whose measured times are taken for `stage`.
StageId stand_in(MeasuredStages const& stages, TrainingConfig const& config, StageId stage) {
  if (stages.count(stage) > 0) return stage;
  StageId const first{0};
  StageId const last{config.parallel.pipeline - 1};
  auto const distance = [&](StageId other) { return std::abs(other.value() - stage.value()); };
  std::optional<StageId> nearest;
  for (auto const& [measured, tasks] : stages) {
    bool const is_inner = measured > first && measured < last &&
                          policy_of(config, measured) == policy_of(config, stage);
    bool const is_nearer = !nearest || distance(measured) < distance(*nearest);
    if (is_inner && is_nearer) nearest = measured;
  }
  bool const is_inner = stage > first && stage < last;
  if (!nearest || !is_inner) {
    throw std::invalid_argument{"stage " + std::to_string(stage.value()) + " was not measured"};
  }
  return *nearest;
}

std::vector<SimTime> durations_of(StagePlan const& rank,
                                  std::vector<MeasuredTask> const& measured) {
  std::vector<SimTime> durations;
  durations.reserve(rank.tasks.size());
  for (Task const& task : rank.tasks) {
    auto const same = std::find_if(
        measured.begin(), measured.end(),
        [&](MeasuredTask const& candidate) { return are_alike(candidate.task, task); });
    if (same == measured.end()) {
      throw std::invalid_argument{"a task of stage " + std::to_string(rank.stage.value()) +
                                  " was not measured"};
    }
    durations.push_back(same->duration);
  }
  return durations;
}

}  // namespace

std::vector<MeasuredTask> measured_tasks(StagePlan const& rank, RankTrace const& trace) {
  std::vector<std::vector<std::int64_t>> times(rank.tasks.size());
  std::size_t row = 0;
  auto const skip_others = [&] {
    while (row < trace.ops.rows() && !is_of_a_task(trace, row)) ++row;
  };
  std::size_t runs = 0;
  std::size_t taken = 0;
  visit_entries(rank.program, [&](IssueEntry const& entry, std::int32_t /*advance*/) {
    if (entry.kind != IssueEntry::Kind::run) return;
    ++runs;
    skip_others();
    if (row == trace.ops.rows()) return;
    std::size_t const first = row;
    std::int64_t duration = trace.ops.duration[row++];
    while (row < trace.ops.rows() && is_wait_of(trace, first, row)) {
      duration += trace.ops.duration[row++];
    }
    times[static_cast<std::size_t>(entry.task)].push_back(duration);
    ++taken;
  });
  skip_others();
  if (row != trace.ops.rows() || taken != runs) {
    throw std::invalid_argument{"found a trace without exactly one row for each of the " +
                                std::to_string(runs) +
                                " tasks of its rank; accepted: chunk detail"};
  }
  std::vector<MeasuredTask> measured;
  for (std::size_t i = 0; i < times.size(); ++i) {
    if (!times[i].empty()) measured.push_back({rank.tasks[i], median(times[i])});
  }
  return measured;
}

SimTime compose_iteration(CostedPlan const& costed, MeasuredStages const& stages) {
  TrainingPlan const& plan = costed.plan();
  std::vector<std::vector<SimTime>> durations;
  std::vector<PlayedStage> played = costed.played();
  for (StagePlan const& rank : plan.stages) {
    durations.push_back(durations_of(rank, stages.at(stand_in(stages, plan.config, rank.stage))));
  }
  for (std::size_t i = 0; i < played.size(); ++i) played[i].durations = durations[i];
  TimelineInput input = costed.timeline();
  input.stages = played;
  return play(input).period;
}

}  // namespace stagecraft
