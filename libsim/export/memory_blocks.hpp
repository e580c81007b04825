#pragma once

#include <cstdint>
#include <vector>

#include "libsim/trace/trace.hpp"

namespace stagecraft {

/// One block of memory that appears or goes.
struct BlockEvent {
  bool is_allocation = false;
  std::int64_t time = 0;     ///< ps
  std::int64_t address = 0;  ///< from 0
  std::int64_t size = 0;
  Category category = Category::parameters;
  std::int64_t origin = -1;  ///< row of the op that ran when it was allocated; -1: before any
};

/// A block that is still there at the end.
struct LiveBlock {
  std::int64_t address = 0;
  std::int64_t size = 0;
  Category category = Category::parameters;
  std::int64_t origin = -1;
};

/// Memory of a rank told as blocks. A trace knows how much each category holds, not which buffer is
/// which: what grows is a block of its own; what shrinks releases the oldest block of exactly that
/// size, else the newest ones, the last of them in part. The sums are those of the trace after
/// every state.
struct MemoryBlocks {
  std::vector<BlockEvent> events;  ///< by time
  std::vector<LiveBlock> live;     ///< by address
  std::int64_t arena = 0;          ///< bytes from the lowest to the highest address
};

/// `compute`: index of the compute stream among the names.
MemoryBlocks memory_blocks(RankTrace const& rank, std::int64_t compute);

}  // namespace stagecraft
