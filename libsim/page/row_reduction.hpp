#pragma once

#include <cstddef>
#include <cstdint>

#include "libsim/trace/trace.hpp"
#include "libsim/trace/trace_names.hpp"

namespace stagecraft {

/// The rank at chunk detail: one row for each forward and backward of a chunk instead of its ops;
/// other rows are unchanged, but those of the tensor-parallel stream are dropped, as they are
/// inside the chunks, and a chunk's waits for the host are one row at its end. `forward` and
/// `backward` are the indices of these names. The rows of a backward that are recompute are not
/// kept separate.
RankTrace at_chunk_detail(RankTrace const& rank,
                          KnownNames const& names,
                          std::int64_t forward,
                          std::int64_t backward,
                          std::int64_t backward_phase);

/// Memory in at most about `most_rows` rows: the fullest state and the last of each interval of
/// time. The peak keeps its value and its time.
MemoryColumns thinned(MemoryColumns const& memory, std::size_t most_rows);

}  // namespace stagecraft
