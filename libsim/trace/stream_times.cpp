#include "libsim/trace/stream_times.hpp"

#include <algorithm>
#include <vector>

namespace stagecraft {

namespace {

struct Span {
  std::int64_t start = 0;
  std::int64_t end = 0;
};

/// The length of what the spans cover together, which is at most the last end. Sorts them.
std::int64_t covered(std::vector<Span>& spans) {
  std::sort(spans.begin(), spans.end(),
            [](Span const& a, Span const& b) { return a.start < b.start; });
  std::int64_t sum = 0;
  std::int64_t end = 0;
  for (Span const& span : spans) {
    sum += std::max<std::int64_t>(span.end - std::max(span.start, end), 0);
    end = std::max(end, span.end);
  }
  return sum;
}

}  // namespace

StreamTimes stream_times(RankTrace const& rank, KnownNames const& names) {
  StreamTimes times;
  std::vector<Span> computing;
  std::vector<Span> messages;
  std::vector<Span> reductions;
  OpColumns const& ops = rank.ops;
  for (std::size_t row = 0; row < ops.rows(); ++row) {
    Span const span{ops.start[row], ops.start[row] + ops.duration[row]};
    times.end = std::max(times.end, span.end);
    auto const stream = names.stream(ops.stream[row]);
    if (!stream) continue;
    if (is_message(*stream)) {
      messages.push_back(span);
    } else if (*stream == TraceStream::data_parallel ||
               (*stream == TraceStream::compute &&
                names.phase(ops.phase[row]) == TracePhase::data_parallel)) {
      reductions.push_back(span);
    } else if (*stream == TraceStream::compute) {
      computing.push_back(span);
    }
  }
  times.computing = covered(computing);
  computing.insert(computing.end(), messages.begin(), messages.end());
  std::int64_t const with_messages = covered(computing);
  computing.insert(computing.end(), reductions.begin(), reductions.end());
  times.transfer = with_messages - times.computing;
  times.data_parallel = covered(computing) - with_messages;
  return times;
}

}  // namespace stagecraft
