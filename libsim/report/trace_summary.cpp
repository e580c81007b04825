#include "libsim/report/trace_summary.hpp"

#include "libsim/trace/trace_names.hpp"
#include "libsim/trace/trace_sums.hpp"

namespace stagecraft {

namespace {

std::string const& name_at(std::vector<std::string> const& names, std::int64_t index) {
  return names[static_cast<std::size_t>(index)];
}

void summarize_ops(RankSummary& summary, OpColumns const& ops, TraceNames const& names) {
  // Summed by indices first: looking up texts for each of a million rows would take a second.
  std::map<std::tuple<std::int64_t, std::int64_t, std::int64_t>, std::int64_t> times;
  for (std::size_t i = 0; i < ops.rows(); ++i) {
    std::int64_t& time = times[{ops.op[i], ops.phase[i], ops.stream[i]}];
    time = bounded_sum(time, ops.duration[i]);
  }
  for (auto const& [key, time] : times) {
    auto const& [op, phase, stream] = key;
    std::int64_t& sum = summary.ops[{name_at(names.op, op), name_at(names.phase, phase),
                                     name_at(names.stream, stream)}];
    sum = bounded_sum(sum, time);
    summary.has_whole_chunks =
        summary.has_whole_chunks || name_at(names.op, op) == name_of(TracePhase::backward);
  }
}

}  // namespace

RankSummary summarize(RankTrace const& rank, TraceNames const& names) {
  RankSummary summary;
  summary.rank = rank.rank;
  summary.stage = rank.stage;
  summary.times = stream_times(rank, KnownNames{names});
  summarize_ops(summary, rank.ops, names);
  summary.at_peak = peak_of(rank.memory).at_peak;
  return summary;
}

std::vector<RankSummary> summarize(TraceReader const& trace) {
  std::vector<RankSummary> summaries;
  for (std::int32_t const rank : trace.ranks()) {
    summaries.push_back(summarize(trace.read(rank), trace.names()));
  }
  return summaries;
}

}  // namespace stagecraft
