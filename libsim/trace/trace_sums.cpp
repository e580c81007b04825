#include "libsim/trace/trace_sums.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>
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

ChunkSums chunk_sums(Programs const& programs, Task const& task) {
  Pass const pass = pass_of(task);
  ChunkSums sums;
  for (TaskBlock const& of_task : blocks_in_order(programs, task)) {
    for (Op const& op : programs.blocks[of_task.block].ops(pass)) {
      sums.bytes += op.traffic.count();
      sums.flops += op.flops;
    }
  }
  return sums;
}

MemoryPeak peak_of(MemoryColumns const& memory) {
  MemoryPeak result;
  std::int64_t peak = -1;
  std::int64_t workspace = 0;
  for (std::size_t row = 0; row < memory.rows(); ++row) {
    workspace = std::max(workspace, memory.of(Category::workspace)[row]);
    std::int64_t sum = -memory.of(Category::workspace)[row];
    for (TraceColumn const& column : memory.bytes) sum += column[row];
    if (sum <= peak) continue;
    peak = sum;
    result.time = memory.time[row];
    for (std::size_t i = 0; i < memory.bytes.size(); ++i) {
      result.at_peak[static_cast<Category>(i)] = memory.bytes[i][row];
    }
  }
  result.at_peak[Category::workspace] = workspace;
  return result;
}

StreamTimes stream_times(RankTrace const& rank, KnownNames const& names) {
  StreamTimes times;
  std::vector<Span> busy;
  std::vector<Span> host_waits;
  std::vector<Span> messages;
  std::vector<Span> reductions;
  std::vector<Span> offloaded;
  std::map<TracePhase, std::vector<Span>> collectives;
  OpColumns const& ops = rank.ops;
  for (std::size_t row = 0; row < ops.rows(); ++row) {
    Span const span{ops.start[row], ops.start[row] + ops.duration[row]};
    times.end = std::max(times.end, span.end);
    auto const stream = names.stream(ops.stream[row]);
    if (!stream) continue;
    auto const phase = names.phase(ops.phase[row]);
    StreamKind const kind = kind_of(*stream);
    bool const on_compute = *stream == Stream::compute;
    if (kind == StreamKind::messages) {
      messages.push_back(span);
    } else if (kind == StreamKind::reductions || kind == StreamKind::units ||
               (on_compute && phase == TracePhase::data_parallel)) {
      reductions.push_back(span);
    } else if (kind == StreamKind::offload || (on_compute && phase == TracePhase::transfer)) {
      offloaded.push_back(span);
    } else if (on_compute) {
      (phase == TracePhase::host_wait ? host_waits : busy).push_back(span);
    } else if (phase) {
      collectives[*phase].push_back(span);
    }
  }
  std::int64_t so_far = covered(busy);
  auto const beside = [&](std::vector<Span> const& spans) {
    busy.insert(busy.end(), spans.begin(), spans.end());
    std::int64_t const before = std::exchange(so_far, covered(busy));
    return so_far - before;
  };
  times.computing = so_far;
  times.host_wait = beside(host_waits);
  for (auto const& [phase, spans] : collectives) {
    std::int64_t const exposed = beside(spans);
    if (exposed == 0) continue;
    times.collectives[phase] = exposed;
    times.computing += exposed;
  }
  times.transfer = beside(messages);
  times.data_parallel = beside(reductions);
  times.offload = beside(offloaded);
  return times;
}

}  // namespace stagecraft
