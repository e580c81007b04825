#pragma once

#include <cstdint>
#include <span>

#include "libsim/program/op.hpp"
#include "libsim/program/tensor.hpp"

struct CUstream_st;  ///< what a cudaStream_t points to

namespace stagecraft {

/// Launches destination[i] = sum, or maximum, of source[i] over the sources in their order, that of
/// the ranks, as reduce_in_rank_order() computes it on a CPU. All memory is on one device.
///
/// \throws std::logic_error  if the type is not a floating-point type, or if there is no source.
/// \throws DeviceError  if the launch fails.
void reduce_on_device(Reduction reduction,
                      ElementType type,
                      std::span<void const* const> sources,
                      void* destination,
                      std::int64_t elements,
                      CUstream_st* stream);

}  // namespace stagecraft
