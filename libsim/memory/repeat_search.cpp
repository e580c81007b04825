#include "libsim/memory/repeat_search.hpp"

#include <utility>

namespace stagecraft {

std::int32_t RepeatSearch::skippable(Allocator const& allocator,
                                     BufferEvents const& events,
                                     std::vector<BlockId> const& blocks) {
  if (++ended_ < 2 || is_over_) return 0;
  AllocatorCounters const& counters = allocator.counters();
  RepeatedState::State state{counters.device_alloc, counters.device_free, counters.retries};
  if (!allocator.append_state(state)) return 0;
  while (first_live_ < blocks.size() && blocks[first_live_] == no_block) ++first_live_;
  for (std::size_t i = first_live_; i < blocks.size(); ++i) {
    if (blocks[i] == no_block) continue;
    state.push_back(events.buffers() - static_cast<std::int64_t>(i));
    state.push_back(allocator.address_of(blocks[i]));
  }
  auto const period = states_.looks_since(std::move(state));
  if (!period) return 0;
  is_over_ = true;
  return events.repeats_left() / *period * *period;
}

}  // namespace stagecraft
