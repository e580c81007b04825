#pragma once

#include <cstdint>
#include <span>

#include "libsim/host/worker_pool.hpp"
#include "libsim/program/op.hpp"
#include "libsim/program/tensor.hpp"

namespace stagecraft {

/// destination[i] = sum, or maximum, of source[i] over the sources in their order, that of the
/// ranks.
///
/// 16-bit elements are summed in float and rounded once. The destination may be one of the sources,
/// but must not overlap one otherwise.
///
/// \throws std::logic_error  if the type is not a floating-point type, or if there is no source.
void reduce_in_rank_order(WorkerPool& pool,
                          Reduction reduction,
                          ElementType type,
                          std::span<void const* const> sources,
                          void* destination,
                          std::int64_t elements);

}  // namespace stagecraft
