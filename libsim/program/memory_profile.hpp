#pragma once

#include <cstdint>

#include "libsim/program/block_program.hpp"
#include "libsim/program/category_bytes.hpp"

namespace stagecraft {

/// How a rank's memory changes, in issue order, while a part of a plan runs. Bytes are relative to
/// the start. It is the sum of the part's buffer events, so it does not depend on any cost.
struct MemoryProfile {
  std::int64_t peak = 0;             ///< largest sum; 0 if it never rises above the start
  std::int64_t activation_peak = 0;  ///< largest activation_sum
  std::int32_t peak_op = -1;         ///< op whose buffers reach the peak; -1: none
  std::int32_t peak_block = 0;       ///< tasks only: position of that op's block, in running order
  CategoryBytes net;                 ///< change at the end
  CategoryBytes at_peak;             ///< change at the first instant at which the sum is largest

  void allocate(Category category, std::int64_t bytes);
  void release(Category category, std::int64_t bytes) { net[category] -= bytes; }
  /// Continues with `next`. Its op positions are not kept: if it has the peak, peak_op becomes -1.
  void append(MemoryProfile const& next);
};

/// Sums the buffers that one pass of a block allocates and releases.
MemoryProfile profile_memory(BlockProgram const& block, Pass pass);

}  // namespace stagecraft
