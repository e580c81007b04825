#include "libsim/trace/chunk_slices.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "libsim/trace/trace_sums.hpp"

namespace stagecraft {

namespace {

bool is_backward_row(OpColumns const& ops, std::size_t row, KnownNames const& names) {
  auto const phase = names.phase(ops.phase[row]);
  return phase && is_backward(*phase);
}

/// Whether the row continues the slice. A whole chunk is always a slice of its own.
bool continues(ChunkSlice const& slice,
               OpColumns const& ops,
               std::size_t row,
               KnownNames const& names) {
  return !names.is_whole_chunk(ops.op[row]) && !names.is_whole_chunk(ops.op[slice.first]) &&
         slice.microbatch == ops.microbatch[row] && slice.chunk == ops.chunk[row] &&
         slice.is_backward == is_backward_row(ops, row, names);
}

void add_row(ChunkSlice& slice, OpColumns const& ops, std::size_t row, KnownNames const& names) {
  slice.last = row + 1;
  slice.flops = bounded_sum(slice.flops, ops.flops[row]);
  if (names.stream(ops.stream[row]) != Stream::compute) return;
  slice.start = std::min(slice.start, ops.start[row]);
  slice.end = std::max(slice.end, ops.start[row] + ops.duration[row]);
  slice.bytes = bounded_sum(slice.bytes, ops.bytes[row]);
  std::int64_t const layer = ops.layer[row];
  if (layer < 0) return;
  slice.first_layer = slice.first_layer < 0 ? layer : std::min(slice.first_layer, layer);
  slice.last_layer = std::max(slice.last_layer, layer);
}

}  // namespace

bool is_in_chunk(OpColumns const& ops, std::size_t row, KnownNames const& names) {
  auto const phase = names.phase(ops.phase[row]);
  return phase && (*phase == TracePhase::forward || is_backward(*phase)) &&
         ops.microbatch[row] >= 0;
}

std::vector<ChunkSlice> chunk_slices(OpColumns const& ops, KnownNames const& names) {
  std::vector<ChunkSlice> slices;
  std::int64_t waited = 0;  // for the host, since the last row of a slice
  for (std::size_t row = 0; row < ops.rows(); ++row) {
    if (names.phase(ops.phase[row]) == TracePhase::host_wait) {
      waited = bounded_sum(waited, ops.duration[row]);
    }
    if (!is_in_chunk(ops, row, names)) continue;
    std::int64_t const before = std::exchange(waited, 0);
    bool const is_new = slices.empty() || !continues(slices.back(), ops, row, names);
    // A slice begins with an op on the compute stream; its ops on other streams are within it.
    if (is_new && names.stream(ops.stream[row]) != Stream::compute) continue;
    if (is_new) {
      slices.push_back({.start = ops.start[row],
                        .end = ops.start[row],
                        .first = row,
                        .is_backward = is_backward_row(ops, row, names),
                        .microbatch = ops.microbatch[row],
                        .chunk = ops.chunk[row]});
    } else {
      slices.back().host_wait = bounded_sum(slices.back().host_wait, before);
    }
    add_row(slices.back(), ops, row, names);
  }
  return slices;
}

}  // namespace stagecraft
