#include "libsim/allocator/caching_allocator.hpp"

#include <algorithm>

#include "libsim/allocator/request_sizes.hpp"

namespace stagecraft {

void CachingAllocator::collect_garbage() {
  auto const threshold = static_cast<std::int64_t>(settings_.garbage_collection_threshold *
                                                   static_cast<double>(*allowed_));
  if (counters_.reserved <= threshold || settings_.expandable_segments) return;
  std::int64_t const target = counters_.reserved - threshold;
  found_.clear();
  for (std::size_t pool = 1; pool < pools_.size(); pool += 2) {
    pools_[pool].free.append_to(found_);
  }
  std::erase_if(found_, [&](Block const* block) { return blocks_.is_split(block); });
  auto const age = [&](Block const* block) { return searches_ - block->search; };
  std::int64_t total_age = 0;
  for (Block const* const block : found_) total_age += age(block);

  std::int64_t released = 0;
  bool has_released = true;
  while (released < target && has_released && !found_.empty()) {
    double const mean_age = static_cast<double>(total_age) / static_cast<double>(found_.size());
    has_released = false;
    // All that are old enough go, even beyond the target, so that this does not happen often.
    std::erase_if(found_, [&](Block* block) {
      if (static_cast<double>(age(block)) < mean_age) return false;
      has_released = true;
      released += block->size;
      total_age -= age(block);
      release_segment(block);
      return true;
    });
  }
}

bool CachingAllocator::release_oversize(Request const& request) {
  if (settings_.max_split_size == AllocatorSettings::unlimited) return false;
  if (settings_.expandable_segments) return false;
  FreeBlocks const& free = request.pool->free;
  std::int64_t const needed = std::max(request.size, settings_.max_split_size);
  Block* at = free.lower_bound(needed);
  if (at != blocks_.none()) {
    release_segment(at);
    return true;
  }
  // No block is large enough alone: the largest ones go.
  std::int64_t released = 0;
  for (at = free.last(); released < needed && at != blocks_.none(); at = free.last()) {
    if (at->size < settings_.max_split_size) break;
    released += at->size;
    release_segment(at);
  }
  return released >= needed;
}

void CachingAllocator::release_cached() {
  events_.synchronize([this](Block* block) { finish_event(block); });
  for (std::size_t kind : {1U, 0U}) {  // large ones first
    for (std::size_t pool = kind; pool < pools_.size(); pool += 2) release_pool(pools_[pool]);
  }
}

void CachingAllocator::release_pool(StreamPool& pool) {
  found_.clear();
  pool.free.append_to(found_);
  for (Block* const block : found_) {
    if (settings_.expandable_segments) {
      unmap(block);
    } else if (!blocks_.is_split(block)) {
      release_segment(block);
    }
  }
}

void CachingAllocator::release_segment(Block* block) {
  device_.give_back(block->size);
  note_device();
  counters_.reserved -= block->size;
  --counters_.segments;
  ++counters_.device_free;
  remove_free(block);
  blocks_.remove(block);
}

CachingAllocator::CachingAllocator(AllocatorSettings const& settings, std::int64_t capacity)
    : settings_{settings}, device_{capacity} {
  if (settings.memory_fraction) set_memory_fraction(*settings.memory_fraction);
}

CachingAllocator::Request CachingAllocator::new_request(std::int64_t bytes, std::int32_t stream) {
  std::int64_t const size = request_sizes::block_size(bytes, settings_);
  bool const is_large = !request_sizes::is_small(size);
  for (auto next = static_cast<std::int32_t>(pools_.size()) / 2; next <= stream; ++next) {
    for (bool const large : {false, true}) {
      pools_.push_back({FreeBlocks{blocks_.none()}, next, large, {}, {}});
    }
  }
  bool const is_oversize = size >= settings_.max_split_size;
  bool const splits_all = !is_large || settings_.expandable_segments;
  return {
      .bytes = bytes,
      .stream = stream,
      .bin = FreeBlocks::bin_of(size),
      .size = size,
      .too_large = is_oversize ? size + settings_.max_non_split_rounding : settings_.max_split_size,
      .least_rest = splits_all    ? request_sizes::smallest_block
                    : is_oversize ? AllocatorSettings::unlimited
                                  : request_sizes::largest_small + 1,
      .pool = &pools_[2 * static_cast<std::size_t>(stream) + (is_large ? 1 : 0)]};
}

Block* CachingAllocator::find_memory(Request const& request) {
  if (collects_garbage()) collect_garbage();
  Block* found = take_segment(request);
  if (found == nullptr && release_oversize(request)) found = take_segment(request);
  if (found == nullptr) {
    release_cached();
    ++counters_.retries;
    found = take_segment(request);
  }
  if (found == nullptr) ++counters_.ooms;
  return found;
}

void CachingAllocator::collect_events() {
  events_.collect([this](Block* block) { finish_event(block); });
}

Block* CachingAllocator::take_segment(Request const& request) {
  std::int64_t const segment = request_sizes::segment_size(request.size, settings_);
  if (is_over_allowed(segment)) return nullptr;
  if (settings_.expandable_segments) return take_expandable(request);
  if (!device_.take(segment)) return nullptr;
  note_device();
  GrowthWatch const& watch = request.pool->watch;
  if (watch.is_watching() && !watch.repeats_with(segment)) {
    repeats_round_ = false;
    for (StreamPool& pool : pools_) pool.watch.end();
  }
  counters_.reserve(segment);
  ++counters_.segments;
  Block* const block = blocks_.add();
  block->address = addresses_.take(segment, counters_.device_free);
  block->size = segment;
  block->pool = request.pool;
  return block;
}

void CachingAllocator::record_stream(BlockId block, std::int32_t stream) {
  if (stream == block->pool->stream) return;  // its own
  for (std::int32_t use = block->uses; use >= 0; use = uses_[static_cast<std::size_t>(use)].next) {
    if (uses_[static_cast<std::size_t>(use)].stream == stream) return;
  }
  std::int32_t entry = unused_use_;
  if (entry < 0) {
    entry = static_cast<std::int32_t>(uses_.size());
    uses_.emplace_back();
  } else {
    unused_use_ = uses_[static_cast<std::size_t>(entry)].next;
  }
  uses_[static_cast<std::size_t>(entry)] = {stream, block->uses};
  block->uses = entry;
}

void CachingAllocator::record_events(Block* block) {
  while (block->uses >= 0) {
    std::int32_t const entry = block->uses;
    StreamUse& use = uses_[static_cast<std::size_t>(entry)];
    events_.record(block, use.stream);
    ++block->pending;
    block->uses = use.next;
    use.next = unused_use_;
    unused_use_ = entry;
  }
}

void CachingAllocator::finish_event(Block* block) {
  if (--block->pending == 0) free_now(block);
}

std::vector<MemoryBlock> CachingAllocator::blocks() const {
  std::vector<MemoryBlock> result;
  for (Block const* const block : blocks_.all()) {
    if (!block->is_mapped) continue;
    result.push_back({.address = block->address,
                      .size = block->size,
                      .requested = block->is_allocated ? block->requested : 0,
                      .stream = block->pool->stream,
                      .is_small = !block->pool->is_large,
                      .is_live = block->is_allocated,
                      .is_split = blocks_.is_split(block),
                      .begins_segment = block->previous == blocks_.none()});
  }
  std::sort(result.begin(), result.end(),
            [](MemoryBlock const& a, MemoryBlock const& b) { return a.address < b.address; });
  return result;
}

bool CachingAllocator::append_state(std::vector<std::int64_t>& state) const {
  if (collects_garbage() || !events_.is_empty()) return false;
  std::vector<Block const*> blocks = blocks_.all();
  std::ranges::sort(blocks, {}, [](Block const* block) { return block->address; });
  state.push_back(device_.used());
  addresses_.append_to(state);
  for (Block const* const block : blocks) {
    int const use = (block->is_allocated ? 1 : 0) + (block->is_mapped ? 2 : 0) +
                    (block->previous == blocks_.none() ? 4 : 0) + (block->uses >= 0 ? 8 : 0);
    state.insert(state.end(),
                 {block->address, block->size, block->is_allocated ? block->requested : 0,
                  32 * block->pool->stream + (block->pool->is_large ? 16 : 0) + use});
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
