#include "libsim/allocator/caching_allocator.hpp"

#include <algorithm>

#include "libsim/allocator/request_sizes.hpp"

namespace stagecraft {

CachingAllocator::CachingAllocator(AllocatorSettings const& settings, std::int64_t capacity)
    : settings_{settings}, device_{capacity} {
  if (settings.memory_fraction) set_memory_fraction(*settings.memory_fraction);
}

BlockId CachingAllocator::find_memory(Request const& request) {
  if (collects_garbage()) collect_garbage();
  BlockId found = take_segment(request);
  if (found == no_block && release_oversize(request)) found = take_segment(request);
  if (found == no_block) {
    release_cached();
    ++counters_.retries;
    found = take_segment(request);
  }
  if (found == no_block) ++counters_.ooms;
  return found;
}

void CachingAllocator::collect_events() {
  events_.collect([this](BlockId id) { finish_event(id); });
}

BlockId CachingAllocator::take_segment(Request const& request) {
  std::int64_t const segment = request_sizes::segment_size(request.size, settings_);
  if (is_over_allowed(segment)) return no_block;
  if (settings_.expandable_segments) return take_expandable(request);
  if (!device_.take(segment)) return no_block;
  note_device();
  GrowthWatch const& watch = pool_at(request.pool).watch;
  if (watch.is_watching() && !watch.repeats_with(segment)) {
    repeats_round_ = false;
    for (StreamPool& pool : pools_) pool.watch.end();
  }
  counters_.reserve(segment);
  ++counters_.segments;
  Block block;
  block.address = addresses_.take(segment, counters_.device_free);
  block.size = segment;
  block.pool = request.pool;
  return blocks_.add(block);
}

void CachingAllocator::record_stream(BlockId id, std::int32_t stream) {
  Block& block = blocks_[id];
  if (stream == block.pool / 2) return;  // its own
  for (std::int32_t use = block.uses; use >= 0; use = uses_[static_cast<std::size_t>(use)].next) {
    if (uses_[static_cast<std::size_t>(use)].stream == stream) return;
  }
  std::int32_t entry = unused_use_;
  if (entry < 0) {
    entry = static_cast<std::int32_t>(uses_.size());
    uses_.emplace_back();
  } else {
    unused_use_ = uses_[static_cast<std::size_t>(entry)].next;
  }
  uses_[static_cast<std::size_t>(entry)] = {stream, block.uses};
  block.uses = entry;
}

void CachingAllocator::record_events(BlockId id) {
  Block& block = blocks_[id];
  while (block.uses >= 0) {
    std::int32_t const entry = block.uses;
    StreamUse& use = uses_[static_cast<std::size_t>(entry)];
    events_.record(id, use.stream);
    ++block.pending;
    block.uses = use.next;
    use.next = unused_use_;
    unused_use_ = entry;
  }
}

void CachingAllocator::finish_event(BlockId id) {
  if (--blocks_[id].pending == 0) free_now(id);
}

std::vector<MemoryBlock> CachingAllocator::blocks() const {
  std::vector<MemoryBlock> result;
  for (BlockId const id : blocks_.ids()) {
    Block const& block = blocks_[id];
    if (!block.is_mapped) continue;
    result.push_back({.address = block.address,
                      .size = block.size,
                      .requested = block.is_allocated ? block.requested : 0,
                      .stream = block.pool / 2,
                      .is_small = !block.is_large(),
                      .is_live = block.is_allocated,
                      .is_split = block.is_split(),
                      .begins_segment = block.previous == no_block});
  }
  std::sort(result.begin(), result.end(),
            [](MemoryBlock const& a, MemoryBlock const& b) { return a.address < b.address; });
  return result;
}

bool CachingAllocator::append_state(std::vector<std::int64_t>& state) const {
  if (collects_garbage() || !events_.is_empty()) return false;
  std::vector<BlockId> ids = blocks_.ids();
  std::ranges::sort(ids, {}, [this](BlockId id) { return blocks_[id].address; });
  state.push_back(device_.used());
  addresses_.append_to(state);
  for (BlockId const id : ids) {
    Block const& block = blocks_[id];
    int const use = (block.is_allocated ? 1 : 0) + (block.is_mapped ? 2 : 0) +
                    (block.previous == no_block ? 4 : 0) + (block.uses >= 0 ? 8 : 0);
    state.insert(state.end(), {block.address, block.size, block.is_allocated ? block.requested : 0,
                               16 * block.pool + use});
  }
  return true;
}

void CachingAllocator::take_foreign(std::int64_t bytes) {
  device_.take_foreign(bytes);
  note_device();
}

void CachingAllocator::watch_round() {
  for (StreamPool& pool : pools_) pool.watch.begin();
  given_back_ = counters_.device_free;
  bool const sizes_decide =
      !settings_.expandable_segments && settings_.max_split_size == AllocatorSettings::unlimited;
  // A second stream, or a pool that does not exist yet, is not watched.
  repeats_round_ = sizes_decide && pools_.size() == 2 && events_.is_empty();
}

bool CachingAllocator::would_repeat_round() const {
  return repeats_round_ && pools_.size() == 2 && counters_.device_free == given_back_ &&
         events_.is_empty();
}

void CachingAllocator::set_memory_fraction(double fraction) {
  allowed_.reset();
  if (fraction < 1) {
    allowed_ = static_cast<std::int64_t>(fraction * static_cast<double>(device_.capacity()));
  }
}

}  // namespace stagecraft
