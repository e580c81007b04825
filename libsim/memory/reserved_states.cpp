#include "libsim/memory/reserved_states.hpp"

#include <cstddef>

#include "libsim/memory/buffer_events.hpp"
#include "libsim/memory/configured_allocator.hpp"
#include "libsim/memory/stage_memory.hpp"

namespace stagecraft {

std::vector<ReservedState> reserved_states(StageRank const& rank) {
  auto const allocator = configured_allocator(rank.plan.config.memory, unlimited_capacity);
  for (StateBuffer const& buffer : rank.stage.state) {
    if (buffer.is_resident() && buffer.elements > 0) allocator->allocate(buffer.bytes().count(), 0);
  }
  std::vector<ReservedState> states{{resident_memory(rank.stage), allocator->counters().reserved}};
  CategoryBytes now = states.front().held;
  std::vector<BlockId> blocks;
  BufferEvents events{rank};
  events.next();  // the resident buffers
  while (events.next()) {
    for (BufferEvent const& event : events.now()) {
      BufferChange const& change = *event.change;
      bool const allocates = change.kind == BufferChange::Kind::allocate;
      if (!allocates && change.kind != BufferChange::Kind::release) continue;
      auto const buffer = static_cast<std::size_t>(event.buffer);
      if (blocks.size() <= buffer) blocks.resize(buffer + 1, no_block);
      if (allocates) {
        if (change.bytes > 0) blocks[buffer] = allocator->allocate(change.bytes, 0);
      } else if (blocks[buffer] != no_block) {
        allocator->free(blocks[buffer]);
        blocks[buffer] = no_block;
      }
      now[change.category] += allocates ? change.bytes : -change.bytes;
      states.push_back({now, allocator->counters().reserved});
    }
  }
  return states;
}

}  // namespace stagecraft
