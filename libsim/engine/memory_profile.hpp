#pragma once

#include <cstdint>
#include <vector>

#include "libsim/model/block_program.hpp"
#include "libsim/model/category_bytes.hpp"

namespace stagecraft {

/// How memory moves, in issue order, while a piece of a plan runs; relative to its start.
struct MemoryProfile {
  CategoryBytes net;                 ///< at the end
  CategoryBytes at_peak;             ///< at the first instant where the sum is largest
  std::int64_t peak = 0;             ///< that sum; 0 where it never rises above the start
  std::int64_t activation_peak = 0;  ///< largest activation_sum
  std::int32_t peak_op = -1;         ///< op whose buffers made the peak; -1: the start

  /// Continues with `next`, whose op positions are not kept (peak_op becomes -1).
  void append(MemoryProfile const& next);
};

/// What the ops of one pass change, by op.
struct MemoryChanges {
  std::vector<CategoryBytes> before;  ///< allocated just before an op
  std::vector<CategoryBytes> after;   ///< released right after it, negative
};

MemoryChanges memory_changes(BlockProgram const& block, Pass pass);

/// Walks the buffers of one pass: allocated before their op, released after theirs.
MemoryProfile profile_memory(BlockProgram const& block, Pass pass);

}  // namespace stagecraft
