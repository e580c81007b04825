#include "libsim/page/rank_figures.hpp"

#include <algorithm>
#include <vector>

#include "libsim/trace/bounded_sum.hpp"
#include "libsim/trace/memory_peak.hpp"

namespace stagecraft {

namespace {

struct Span {
  std::int64_t start = 0;
  std::int64_t end = 0;
};

/// Sorts spans and joins those that touch, so that their lengths sum to at most the last end.
std::vector<Span> joined(std::vector<Span> spans) {
  std::sort(spans.begin(), spans.end(),
            [](Span const& a, Span const& b) { return a.start < b.start; });
  std::vector<Span> result;
  for (Span const& span : spans) {
    if (!result.empty() && span.start <= result.back().end) {
      result.back().end = std::max(result.back().end, span.end);
    } else {
      result.push_back(span);
    }
  }
  return result;
}

std::int64_t length_of(std::vector<Span> const& spans) {
  std::int64_t sum = 0;
  for (Span const& span : spans) sum += span.end - span.start;
  return sum;
}

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
  std::vector<Span> busy;
  std::vector<Span> busy_or_transfer;
  OpColumns const& ops = rank.ops;
  for (std::size_t row = 0; row < ops.rows(); ++row) {
    Span const span{ops.start[row], ops.start[row] + ops.duration[row]};
    figures.end = std::max(figures.end, span.end);
    figures.has_whole_chunks = figures.has_whole_chunks || names.is_whole_chunk(ops.op[row]);
    auto const stream = names.stream(ops.stream[row]);
    if (!stream) continue;
    if (*stream == TraceStream::compute) {
      busy.push_back(span);
      figures.recompute = bounded_sum(figures.recompute, recompute_in(rank, row, names, shares));
    }
    if (*stream == TraceStream::compute || is_message(*stream)) busy_or_transfer.push_back(span);
  }
  figures.busy = length_of(joined(std::move(busy)));
  figures.transfer = length_of(joined(std::move(busy_or_transfer))) - figures.busy;
  MemoryPeak const peak = peak_of(rank.memory);
  figures.at_peak = peak.at_peak;
  figures.peak_time = peak.time;
  return figures;
}

}  // namespace stagecraft
