#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "libsim/allocator/allocator.hpp"
#include "libsim/memory/buffer_events.hpp"
#include "libsim/memory/repeated_state.hpp"

namespace stagecraft {

/// Finds the repeats of a stage's windows (RepeatedWindows) in an iteration that do to the
/// allocator what earlier ones did.
///
/// Why they can be left out: each repeat makes the same requests and releases. If at the end of one
/// the allocator is in the state in which it was at the end of an earlier one, and buffers of the
/// same age lie in the same blocks, all that follows repeats what followed then.
///
/// It is essential that a repeat holds at least all passes in flight. All buffers that are live at
/// the end of the second repeat or a later one have then been allocated in repeats, and only then
/// does an age, which is the number of buffers allocated since, identify an allocation: a buffer
/// from before the first repeat may have the age that one from a repeat has later.
///
/// A round that is watched (libsim/allocator/growth_watch.hpp) stays complete: repeats that are
/// left out would take no segment, and serve the same requests by blocks of the same sizes.
class RepeatSearch {
 public:
  /// To be called at the end of each repeat but the last (BufferEvents::repeats_left()).
  /// `blocks`: of live buffers, by number; no_block if a buffer is not live.
  /// \return how many of the repeats that are left do what earlier ones did, to be skipped at once.
  std::int32_t skippable(Allocator const& allocator,
                         BufferEvents const& events,
                         std::vector<BlockId> const& blocks);

 private:
  RepeatedState states_;
  std::int32_t ended_ = 0;  ///< repeats
  bool is_over_ = false;
  std::size_t first_live_ = 0;  ///< buffers before this one are not live
};

}  // namespace stagecraft
