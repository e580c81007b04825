#pragma once

#include <cstddef>
#include <cstdint>

#include "libsim/trace/known_names.hpp"
#include "libsim/trace/trace.hpp"

namespace stagecraft {

/// The rank at chunk detail: a row for each forward and backward of a chunk in place of its ops;
/// all other rows as they are, without those of the tensor-parallel stream, which happen inside.
/// `forward`, `backward`: the index of these names. Where the rows of a backward tell recompute
/// apart, that is lost.
RankTrace at_chunk_detail(RankTrace const& rank,
                          KnownNames const& names,
                          std::int64_t forward,
                          std::int64_t backward,
                          std::int64_t backward_phase);

/// Memory in at most about `most_rows` rows: of each stretch of time the fullest state and the
/// last. The peak stays what and where it is.
MemoryColumns thinned(MemoryColumns const& memory, std::size_t most_rows);

}  // namespace stagecraft
