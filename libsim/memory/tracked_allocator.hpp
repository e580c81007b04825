#pragma once

#include <cstdint>
#include <functional>
#include <utility>

#include "libsim/allocator/allocator.hpp"
#include "libsim/allocator/caching_allocator.hpp"

namespace stagecraft {

/// An allocator with a compute stream, and one that borrows blocks for collectives. Between two
/// calls, `inactive_split_` is what was free in split blocks when most was reserved.
class TrackedAllocator {
 public:
  explicit TrackedAllocator(Allocator& allocator)
      : allocator_{allocator}, caching_{dynamic_cast<CachingAllocator*>(&allocator)} {}

  /// Allocates a buffer, if it has any bytes; false if the device has no memory left.
  bool allocate(std::int64_t bytes, BlockId& block) {
    if (bytes == 0) return true;
    block = caching_ != nullptr ? caching_->allocate(bytes, compute_stream)
                                : allocator_.allocate(bytes, compute_stream);
    if (block == no_block) return false;
    if (counters().peak_reserved > peak_) {
      peak_ = counters().peak_reserved;
      inactive_split_ = counters().inactive_split;
      if (on_growth_) on_growth_(bytes);
    }
    return true;
  }
  /// The same for a buffer that is never freed.
  bool keep(std::int64_t bytes) {
    BlockId block = no_block;
    return allocate(bytes, block);
  }
  void free(BlockId& block) {
    if (block == no_block) return;
    if (caching_ != nullptr) {
      caching_->free(block);
    } else {
      allocator_.free(block);
    }
    block = no_block;
  }
  /// Notes that a collective uses the block.
  void lend(BlockId block) {
    if (block != no_block) allocator_.record_stream(block, communication_stream);
  }

  /// Calls `on_growth` with each request for which it reserves more than ever before.
  void observe_growth(std::function<void(std::int64_t)> on_growth) {
    on_growth_ = std::move(on_growth);
  }

  /// Watches a round of requests, if it is a CachingAllocator; other allocators do not watch any.
  void watch_round() {
    if (caching_ != nullptr) caching_->watch_round();
  }
  bool would_repeat_round() const { return caching_ != nullptr && caching_->would_repeat_round(); }

  Allocator& whole() { return allocator_; }
  AllocatorCounters const& counters() const { return allocator_.counters(); }
  std::int64_t inactive_split_at_peak() const { return inactive_split_; }

 private:
  static constexpr std::int32_t compute_stream = 0;
  static constexpr std::int32_t communication_stream = 1;

  Allocator& allocator_;
  CachingAllocator* caching_;  ///< allocator_ if it is one, so that calls are not virtual
  std::int64_t peak_ = 0;
  std::int64_t inactive_split_ = 0;
  std::function<void(std::int64_t)> on_growth_;
};

}  // namespace stagecraft
