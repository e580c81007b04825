#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "libsim/trace/trace.hpp"
#include "libsim/trace/trace_names.hpp"

namespace stagecraft {

/// The forward or backward of one microbatch through one chunk, as a rank's compute stream saw it.
struct ChunkSlice {
  std::int64_t start = 0;  ///< ps
  std::int64_t end = 0;    ///< ps
  std::size_t first = 0;   ///< its rows: [first, last)
  std::size_t last = 0;
  bool is_backward = false;
  std::int64_t microbatch = 0;
  std::int64_t chunk = 0;
  std::int64_t first_layer = -1;  ///< -1 if the rows do not say
  std::int64_t last_layer = -1;
  std::int64_t bytes = 0;  ///< memory traffic of its kernels
  std::int64_t flops = 0;
  std::int64_t host_wait = 0;  ///< of the rows among them that wait for the host, ps
};

/// Merges the rows of one rank by chunk, in issue order. At chunk detail each slice is one row; at
/// op detail it is consecutive rows of one microbatch, chunk and direction. Rows that do not belong
/// to a chunk (transfers, optimizer) are left out, and do not split the slice around them.
std::vector<ChunkSlice> chunk_slices(OpColumns const& ops, KnownNames const& names);

/// Whether a row is part of a chunk's forward or backward.
bool is_in_chunk(OpColumns const& ops, std::size_t row, KnownNames const& names);

}  // namespace stagecraft
