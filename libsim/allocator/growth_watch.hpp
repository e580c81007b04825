#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "libsim/allocator/free_blocks.hpp"

namespace stagecraft {

/// Watches one pool of a caching allocator through a round of requests and releases that leaves
/// no buffer behind, and tells whether a second round of the same would take no segment.
///
/// Why it can be known: the second round begins with the blocks of the first, because free
/// neighbours are always joined, and with the segments that the first has taken, whole. While both
/// rounds have placed all buffers alike, a request that the first round served by a free block of
/// size b gets the same block again, the best fit, unless a segment that is still to come in the
/// first round holds the request and is smaller than b: one of size b stands at a higher address.
/// A request for which the first round took a segment found no free block that holds it; so in
/// the second it gets one of the segments that are still to come, and the next to come is the best
/// fit, being the first of its size, unless a later one holds the request and is smaller. So it is
/// enough that no segment, when it is taken, holds an earlier request that was served by a
/// larger block. Then both rounds place all buffers alike.
///
/// This needs splits, joins and the choice of a block to depend on nothing but sizes and addresses,
/// which rise from segment to segment, and that no segment is given back.
class GrowthWatch {
 public:
  /// From here on a round is watched.
  void begin() { largest_block_.assign(FreeBlocks::most_bins, 0); }
  /// Nothing is watched any more.
  void end() { largest_block_.clear(); }
  bool is_watching() const { return !largest_block_.empty(); }

  /// A request is served by a block of that size, a free one or a new segment. Pre: is_watching().
  void note_served(std::int64_t request, std::int64_t block) {
    std::int64_t& largest = largest_block_[FreeBlocks::bin_of(request)];
    largest = std::max(largest, block);
  }
  /// A segment of that size is taken, and its request not yet served. Pre: is_watching().
  /// \return whether the second round would, up to here, place its buffers alike. False may be
  ///     said in error, of a request that falls into the bin of the segment and is larger.
  bool repeats_with(std::int64_t segment) const {
    auto const end =
        largest_block_.begin() + static_cast<std::ptrdiff_t>(FreeBlocks::bin_of(segment)) + 1;
    return std::all_of(largest_block_.begin(), end,
                       [&](std::int64_t block) { return block <= segment; });
  }

 private:
  std::vector<std::int64_t>
      largest_block_;  ///< the largest that served a request, by the request's bin
};

}  // namespace stagecraft
