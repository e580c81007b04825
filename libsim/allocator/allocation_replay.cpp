#include "libsim/allocator/allocation_replay.hpp"

namespace stagecraft {

AllocationReplay replay(AllocationSequence const& sequence, Allocator& allocator) {
  AllocationReplay result;
  allocator.place_segments(sequence.places);
  std::vector<BlockId> blocks(static_cast<std::size_t>(sequence.slots), no_block);
  auto const block_of = [&](AllocationEvent const& event) -> BlockId& {
    return blocks[static_cast<std::size_t>(event.slot)];
  };
  AllocatorCounters const& counters = allocator.counters();
  std::int64_t peak = counters.peak_reserved;
  auto const allocate = [&](AllocationEvent const& event) {
    BlockId const block = allocator.allocate(event.value, event.stream);
    if (block == no_block && !result.oom_at) {
      result.oom_at = result.n;
      result.oom_bytes = event.value;
    }
    if (counters.peak_reserved > peak) {
      peak = counters.peak_reserved;
      result.inactive_split_at_peak = counters.inactive_split;
    }
    return block;
  };
  for (AllocationEvent const& event : sequence.events) {
    switch (event.kind) {
      case AllocationEvent::Kind::allocate: {
        ++result.n;
        BlockId& block = block_of(event);
        block = no_block;
        if (event.value == 0) break;  // a null pointer, as PyTorch has it
        block = allocate(event);
        if (block != no_block) break;
        result.end = counters;
        return result;
      }
      case AllocationEvent::Kind::refused: {
        ++result.n;
        BlockId const block = allocate(event);
        if (block != no_block) allocator.free(block);
        break;
      }
      case AllocationEvent::Kind::free:
        if (block_of(event) != no_block) allocator.free(block_of(event));
        break;
      case AllocationEvent::Kind::record_stream:
        if (block_of(event) != no_block) allocator.record_stream(block_of(event), event.stream);
        break;
      case AllocationEvent::Kind::advance:
        allocator.advance(event.value);
        break;
      case AllocationEvent::Kind::event_delay:
        allocator.set_event_delay(event.value);
        break;
      case AllocationEvent::Kind::foreign:
        allocator.take_foreign(event.value);
        break;
      case AllocationEvent::Kind::fraction:
        allocator.set_memory_fraction(event.fraction);
        break;
      case AllocationEvent::Kind::empty_cache:
        allocator.empty_cache();
        break;
      case AllocationEvent::Kind::checkpoint:
        result.checkpoints.push_back(
            {result.n, counters.allocated, counters.reserved, counters.inactive_split});
        break;
    }
  }
  result.end = counters;
  return result;
}

}  // namespace stagecraft
