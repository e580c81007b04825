#pragma once

#include <cstdint>
#include <span>

#include "libsim/host/worker_pool.hpp"
#include "libsim/model/op.hpp"
#include "libsim/model/tensor.hpp"

namespace stagecraft {

/// destination[i] = sum, or maximum, of source[i] over the sources in their order (that of ranks).
///
/// 16-bit elements are summed in float and rounded once. The destination may be one of the sources,
/// but may not overlap one otherwise. At least one source.
///
/// \throws std::logic_error  for a type that is no floating-point type, or without sources.
void reduce_in_rank_order(WorkerPool& pool,
                          Reduction reduction,
                          ElementType type,
                          std::span<void const* const> sources,
                          void* destination,
                          std::int64_t elements);

}  // namespace stagecraft
