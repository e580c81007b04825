#include "libsim/page/row_reduction.hpp"

#include <algorithm>
#include <vector>

#include "libsim/trace/chunk_slices.hpp"

namespace stagecraft {

namespace {

void append_row(OpColumns& to, OpColumns const& from, std::size_t row) {
  for (OpColumn const& column : op_columns) {
    (to.*column.column).push_back((from.*column.column)[row]);
  }
}

void append_row(MemoryColumns& to, MemoryColumns const& from, std::size_t row) {
  to.time.push_back(from.time[row]);
  for (std::size_t i = 0; i < to.bytes.size(); ++i) to.bytes[i].push_back(from.bytes[i][row]);
}

bool waits_for_host(OpColumns const& ops, std::size_t row, KnownNames const& names) {
  return names.phase(ops.phase[row]) == TracePhase::host_wait;
}

/// Appends the waits of a chunk as one row, which ends with the chunk.
void append_waits(OpColumns& to,
                  OpColumns const& from,
                  ChunkSlice const& chunk,
                  KnownNames const& names) {
  std::size_t row = chunk.first;
  while (row < chunk.last && !waits_for_host(from, row, names)) ++row;
  if (row == chunk.last) return;
  append_row(to, from, row);
  to.start.back() = chunk.end - chunk.host_wait;
  to.duration.back() = chunk.host_wait;
}

/// The sum without workspace, by which peaks are defined.
std::int64_t sum_at(MemoryColumns const& memory, std::size_t row) {
  std::int64_t sum = -memory.of(Category::workspace)[row];
  for (TraceColumn const& column : memory.bytes) sum += column[row];
  return sum;
}

}  // namespace

RankTrace at_chunk_detail(RankTrace const& rank,
                          KnownNames const& names,
                          std::int64_t forward,
                          std::int64_t backward,
                          std::int64_t backward_phase) {
  RankTrace reduced{.rank = rank.rank, .stage = rank.stage, .ops = {}, .memory = rank.memory};
  std::vector<ChunkSlice> const chunks = chunk_slices(rank.ops, names);
  auto next = chunks.begin();
  std::size_t end_of_chunk = 0;  // of the rows of the last one
  for (std::size_t row = 0; row < rank.ops.rows(); ++row) {
    if (next != chunks.end() && row == next->first) {
      append_row(reduced.ops, rank.ops, row);
      OpColumns& ops = reduced.ops;
      ops.start.back() = next->start;
      ops.duration.back() = next->end - next->start - next->host_wait;
      ops.op.back() = next->is_backward ? backward : forward;
      if (next->is_backward) ops.phase.back() = backward_phase;
      ops.layer.back() = -1;
      ops.bytes.back() = next->bytes;
      ops.flops.back() = next->flops;
      append_waits(ops, rank.ops, *next, names);
      end_of_chunk = next->last;
      ++next;
      continue;
    }
    if (is_in_chunk(rank.ops, row, names)) continue;
    if (row < end_of_chunk && waits_for_host(rank.ops, row, names)) continue;
    append_row(reduced.ops, rank.ops, row);
  }
  return reduced;
}

MemoryColumns thinned(MemoryColumns const& memory, std::size_t most_rows) {
  if (memory.rows() <= most_rows) return memory;
  MemoryColumns result;
  std::size_t const stretches = std::max<std::size_t>(most_rows / 2, 1);
  std::int64_t const length = memory.time.back() / static_cast<std::int64_t>(stretches) + 1;
  for (std::size_t first = 0; first < memory.rows();) {
    std::size_t fullest = first;
    std::size_t last = first;
    while (last < memory.rows() && memory.time[last] / length == memory.time[first] / length) {
      if (sum_at(memory, last) > sum_at(memory, fullest)) fullest = last;
      ++last;
    }
    append_row(result, memory, fullest);
    if (fullest != last - 1) append_row(result, memory, last - 1);
    first = last;
  }
  return result;
}

}  // namespace stagecraft
