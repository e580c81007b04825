#pragma once

#include <cstdint>
#include <span>

#include "libsim/model/op.hpp"
#include "libsim/model/tensor.hpp"

struct CUstream_st;  ///< what a cudaStream_t points to

namespace stagecraft {

/// Launches destination[i] = sum, or maximum, of source[i] over the sources in their order (that of
/// ranks), as reduce_in_rank_order() does it on a CPU. All memory is of one device.
///
/// \throws std::logic_error  for a type that is no floating-point type, or without sources.
/// \throws DeviceError  where the launch fails.
void reduce_on_device(Reduction reduction,
                      ElementType type,
                      std::span<void const* const> sources,
                      void* destination,
                      std::int64_t elements,
                      CUstream_st* stream);

}  // namespace stagecraft
