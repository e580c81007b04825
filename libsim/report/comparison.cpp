#include "libsim/report/comparison.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <set>

#include "libsim/config/problem.hpp"
#include "libsim/run/pipeline_shape.hpp"
#include "libsim/trace/trace.hpp"
#include "libsim/trace/trace_names.hpp"
#include "libsim/trace/trace_sums.hpp"

namespace stagecraft {

namespace {

using Ranks = std::vector<RankSummary>;

double seconds(std::int64_t picoseconds) { return to_seconds(SimTime{picoseconds}); }

std::optional<std::vector<KeyChange>> key_changes(TraceReader const& a, TraceReader const& b) {
  auto const before = run_config_of(a.meta());
  auto const after = run_config_of(b.meta());
  if (!before || !after) return std::nullopt;
  return changes_between(*before, *after);
}

/// The keys in which the plans of two traces differ, as the end of a sentence; may be empty.
std::string differing_keys(TraceReader const& a, TraceReader const& b) {
  constexpr std::size_t most = 4;
  auto const changes = key_changes(a, b);
  if (!changes || changes->empty()) return "";
  std::string text = " (they differ in ";
  for (std::size_t i = 0; i < std::min(most, changes->size()); ++i) {
    text += (i > 0 ? ", " : "") + printable((*changes)[i].key);
  }
  std::size_t const more = changes->size() - std::min(most, changes->size());
  return text + (more > 0
                     ? " and " + std::to_string(more) + (more == 1 ? " more key)" : " more keys)")
                     : ")");
}

void require_same_plan(TraceReader const& a, TraceReader const& b) {
  if (a.meta().plan == b.meta().plan) return;
  constexpr std::size_t shown = 12;  // digits that tell two plans apart
  throw TraceFileError{b.name(), "is of plan " + b.meta().plan.substr(0, shown) + ", but " +
                                     a.name() + " is of plan " + a.meta().plan.substr(0, shown) +
                                     differing_keys(a, b) + "; --force compares them anyway"};
}

std::set<std::int32_t> stages_of(Ranks const& ranks) {
  std::set<std::int32_t> stages;
  for (RankSummary const& rank : ranks) stages.insert(rank.stage);
  return stages;
}

std::set<std::int32_t> common_stages(Pair<Ranks> const& ranks) {
  std::set<std::int32_t> const other = stages_of(ranks[1]);
  std::set<std::int32_t> stages = stages_of(ranks[0]);
  std::erase_if(stages, [&](std::int32_t stage) { return !other.contains(stage); });
  return stages;
}

/// The stages of a trace that the other does not have.
std::vector<std::int32_t> stages_beyond(std::set<std::int32_t> const& common, Ranks const& ranks) {
  std::set<std::int32_t> const own = stages_of(ranks);
  std::vector<std::int32_t> beyond;
  std::set_difference(own.begin(), own.end(), common.begin(), common.end(),
                      std::back_inserter(beyond));
  return beyond;
}

/// The rank of `others` to compare `rank` with: the same one, or the first of its stage.
RankSummary const* partner_of(RankSummary const& rank, Ranks const& others) {
  RankSummary const* partner = nullptr;
  for (RankSummary const& other : others) {
    if (other.stage != rank.stage) continue;
    if (other.rank == rank.rank) return &other;
    if (partner == nullptr) partner = &other;
  }
  return partner;
}

std::vector<RankComparison> compare_memory(Pair<Ranks> const& ranks) {
  std::size_t const larger = ranks[1].size() > ranks[0].size() ? 1 : 0;
  std::vector<RankComparison> compared;
  for (RankSummary const& rank : ranks[larger]) {
    RankSummary const* const partner = partner_of(rank, ranks[1 - larger]);
    if (partner == nullptr) continue;
    RankComparison& entry = compared.emplace_back();
    entry.rank = rank.rank;
    entry.stage = rank.stage;
    entry.at_peak[larger] = rank.at_peak;
    entry.at_peak[1 - larger] = partner->at_peak;
  }
  return compared;
}

/// The ranks of compare_memory(), row by row; two ranks at a time are in memory.
std::vector<RowComparison> compare_rows_of(TraceReader const& a,
                                           TraceReader const& b,
                                           Pair<Ranks> const& ranks) {
  std::size_t const larger = ranks[1].size() > ranks[0].size() ? 1 : 0;
  std::vector<RowComparison> compared;
  for (RankSummary const& rank : ranks[larger]) {
    RankSummary const* const partner = partner_of(rank, ranks[1 - larger]);
    if (partner == nullptr) continue;
    RankSummary const& of_a = larger == 0 ? rank : *partner;
    RankSummary const& of_b = larger == 0 ? *partner : rank;
    compared.push_back(compare_rows(a.read(of_a.rank), a.names(), b.read(of_b.rank), b.names()));
  }
  return compared;
}

/// Adds the time of each op of a trace; a stage counts once, however many ranks it has.
void add_ops(std::map<OpKey, Pair<double>>& ops,
             std::size_t side,
             Ranks const& ranks,
             std::set<std::int32_t> const& stages) {
  std::map<std::int32_t, double> ranks_of_stage;
  for (RankSummary const& rank : ranks) ranks_of_stage[rank.stage] += 1;
  for (RankSummary const& rank : ranks) {
    if (!stages.contains(rank.stage)) continue;
    for (auto const& [key, time] : rank.ops) {
      ops[key][side] += seconds(time) / ranks_of_stage[rank.stage];
    }
  }
}

std::vector<OpComparison> compare_ops(Pair<Ranks> const& ranks,
                                      std::set<std::int32_t> const& stages) {
  std::map<OpKey, Pair<double>> sums;
  for (std::size_t const side : {0U, 1U}) add_ops(sums, side, ranks[side], stages);
  std::vector<OpComparison> ops;
  ops.reserve(sums.size());
  for (auto const& [key, time] : sums) ops.push_back({key.op, key.phase, key.stream, time});
  std::stable_sort(ops.begin(), ops.end(), [](OpComparison const& x, OpComparison const& y) {
    return x.seconds[0] + x.seconds[1] > y.seconds[0] + y.seconds[1];
  });
  return ops;
}

RankSummary const& first_of_stage(Ranks const& ranks, std::int32_t stage) {
  return *std::find_if(ranks.begin(), ranks.end(),
                       [stage](RankSummary const& rank) { return rank.stage == stage; });
}

std::int32_t busiest_stage(Ranks const& ranks, std::set<std::int32_t> const& stages) {
  return *std::max_element(stages.begin(), stages.end(), [&](std::int32_t x, std::int32_t y) {
    return first_of_stage(ranks, x).times.busy() < first_of_stage(ranks, y).times.busy();
  });
}

/// The phase to count as: if only one trace distinguishes the parts of a backward, they are merged.
std::string comparable_phase(std::string const& phase, bool same_detail) {
  bool const is_part = phase == name_of(TracePhase::recompute) ||
                       phase == name_of(TracePhase::input_gradient) ||
                       phase == name_of(TracePhase::weight_gradient);
  return is_part && !same_detail ? std::string{name_of(TracePhase::backward)} : phase;
}

/// Computes in ps, so that differences that cancel out are exactly zero.
std::vector<Contribution> contributions_on(std::int32_t stage,
                                           Pair<Ranks> const& ranks,
                                           Pair<std::int64_t> const& iteration,
                                           bool same_detail) {
  std::map<std::string, Pair<std::int64_t>> phases;
  for (std::size_t const side : {0U, 1U}) {
    RankSummary const& rank = first_of_stage(ranks[side], stage);
    for (auto const& [key, time] : rank.ops) {
      if (key.stream != name_of(Stream::compute)) continue;
      if (key.phase == name_of(TracePhase::data_parallel)) continue;
      std::int64_t& sum = phases[comparable_phase(key.phase, same_detail)][side];
      sum = bounded_sum(sum, time);
    }
    for (auto const& [phase, time] : rank.times.collectives) {
      std::int64_t& sum = phases[comparable_phase(std::string{name_of(phase)}, same_detail)][side];
      sum = bounded_sum(sum, time);
    }
    phases[std::string{name_of(TracePhase::transfer)}][side] = rank.times.transfer;
    phases[std::string{name_of(TracePhase::data_parallel)}][side] = rank.times.data_parallel;
    phases["offload"][side] = rank.times.offload;
    phases["bubble"][side] = rank.times.bubble(iteration[side]);
  }
  std::vector<Contribution> contributions;
  contributions.reserve(phases.size());
  for (auto const& [phase, time] : phases) {
    if (time == Pair<std::int64_t>{}) continue;
    contributions.push_back({phase, {seconds(time[0]), seconds(time[1])}});
  }
  std::stable_sort(contributions.begin(), contributions.end(),
                   [](Contribution const& x, Contribution const& y) {
                     return std::abs(x.difference()) > std::abs(y.difference());
                   });
  return contributions;
}

bool has_whole_chunks(Ranks const& ranks) {
  return std::any_of(ranks.begin(), ranks.end(),
                     [](RankSummary const& rank) { return rank.has_whole_chunks; });
}

}  // namespace

bool Comparison::is_same_work() const {
  return std::ranges::all_of(rows, [](RowComparison const& row) { return row.is_same_work(); });
}

bool Comparison::agrees_within(double percent) const {
  double const most = percent / 100 * iteration_seconds[0];
  auto const is_apart = [&](Pair<double> const& times) {
    return std::abs(times[1] - times[0]) > most;
  };
  bool const has_same_peaks = std::ranges::all_of(ranks, [](RankComparison const& rank) {
    Pair<CategoryBytes> held = rank.at_peak;
    for (CategoryBytes& bytes : held) bytes[Category::workspace] = 0;
    return held[0] == held[1];
  });
  bool const has_same_stages = stages_alone[0].empty() && stages_alone[1].empty();
  return is_same_work() && has_same_peaks && has_same_stages && !is_apart(iteration_seconds) &&
         std::ranges::none_of(ops, [&](OpComparison const& op) { return is_apart(op.seconds); });
}

std::optional<double> Comparison::iteration_percent() const {
  if (!(iteration_seconds[0] > 0)) return std::nullopt;
  return 100 * (iteration_seconds[1] - iteration_seconds[0]) / iteration_seconds[0];
}

Comparison compare(TraceReader const& a, TraceReader const& b, PlanCheck check) {
  if (check == PlanCheck::same_plan) require_same_plan(a, b);
  Pair<Ranks> const ranks{summarize(a), summarize(b)};
  std::set<std::int32_t> const stages = common_stages(ranks);
  if (stages.empty()) throw TraceFileError{b.name(), "has no stage that " + a.name() + " has"};
  Comparison comparison;
  comparison.files = {a.name(), b.name()};
  comparison.meta = {a.meta(), b.meta()};
  comparison.changes = key_changes(a, b);
  Pair<std::int64_t> iteration{};
  for (std::size_t const side : {0U, 1U}) {
    for (RankSummary const& rank : ranks[side]) {
      iteration[side] = std::max(iteration[side], rank.times.end);
    }
    comparison.iteration_seconds[side] = seconds(iteration[side]);
  }
  for (std::size_t const side : {0U, 1U}) {
    comparison.stages_alone[side] = stages_beyond(stages, ranks[side]);
  }
  comparison.ranks = compare_memory(ranks);
  comparison.ops = compare_ops(ranks, stages);
  comparison.stage = busiest_stage(ranks[0], stages);
  comparison.same_detail = has_whole_chunks(ranks[0]) == has_whole_chunks(ranks[1]);
  if (comparison.same_plan() && comparison.same_detail) {
    comparison.rows = compare_rows_of(a, b, ranks);
  }
  for (std::size_t const side : {0U, 1U}) {
    comparison.waiting_seconds[side] =
        seconds(first_of_stage(ranks[side], comparison.stage).times.waiting(iteration[side]));
  }
  comparison.contributions =
      contributions_on(comparison.stage, ranks, iteration, comparison.same_detail);
  return comparison;
}

}  // namespace stagecraft
