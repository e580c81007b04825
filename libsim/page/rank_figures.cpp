#include "libsim/page/rank_figures.hpp"

#include "libsim/trace/bounded_sum.hpp"
#include "libsim/trace/memory_peak.hpp"
#include "libsim/trace/stream_times.hpp"

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

RankFigures figures_of(RankTrace const& rank,
                       KnownNames const& names,
                       RecomputeShares const& shares) {
  RankFigures figures;
  figures.rank = rank.rank;
  figures.stage = rank.stage;
  OpColumns const& ops = rank.ops;
  for (std::size_t row = 0; row < ops.rows(); ++row) {
    figures.has_whole_chunks = figures.has_whole_chunks || names.is_whole_chunk(ops.op[row]);
    if (names.stream(ops.stream[row]) != TraceStream::compute) continue;
    figures.recompute = bounded_sum(figures.recompute, recompute_in(rank, row, names, shares));
  }
  StreamTimes const times = stream_times(rank, names);
  figures.end = times.end;
  figures.busy = times.computing;
  figures.transfer = times.transfer;
  figures.data_parallel = times.data_parallel;
  MemoryPeak const peak = peak_of(rank.memory);
  figures.at_peak = peak.at_peak;
  figures.peak_time = peak.time;
  return figures;
}

}  // namespace stagecraft
