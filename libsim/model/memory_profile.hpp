#pragma once

#include <cstdint>

#include "libsim/model/block_program.hpp"
#include "libsim/model/category_bytes.hpp"

namespace stagecraft {

/// How memory moves, in issue order, while a piece of a plan runs; relative to its start. The sum
/// of its buffer events, so that it depends on no cost.
struct MemoryProfile {
  std::int64_t peak = 0;             ///< largest sum; 0 if it never rises above the start
  std::int64_t activation_peak = 0;  ///< largest activation_sum
  std::int32_t peak_op = -1;         ///< op whose buffers made the peak; -1: none
  std::int32_t peak_block = 0;  ///< of a task: which of its blocks, in running order, has that op
  CategoryBytes net;            ///< at the end
  CategoryBytes at_peak;        ///< at the first instant where the sum is largest

  void allocate(Category category, std::int64_t bytes);
  void release(Category category, std::int64_t bytes) { net[category] -= bytes; }
  /// Continues with `next`, whose op positions are not kept (peak_op becomes -1).
  void append(MemoryProfile const& next);
};

/// Sums the buffers of one pass: allocated before their op, released after theirs.
MemoryProfile profile_memory(BlockProgram const& block, Pass pass);

}  // namespace stagecraft
