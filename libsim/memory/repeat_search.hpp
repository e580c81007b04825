#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "libsim/allocator/allocator.hpp"
#include "libsim/memory/buffer_events.hpp"

namespace stagecraft {

/// Detects that a state which is observed repeatedly is periodic. It keeps a digest of each state.
/// When the digest of an earlier look returns, it keeps that whole state, and it reports the period
/// once it sees the same state again, the same number of looks later.
class RepeatedState {
 public:
  using State = std::vector<std::int64_t>;

  /// The number of looks since the state was the same; nullopt if no such look is known.
  std::optional<std::int32_t> looks_since(State state) {
    ++looks_;
    if (kept_ && looks_ == due_) {
      if (*kept_ == state) return period_;
      kept_.reset();
    }
    auto const [last, is_new] = last_looks_.try_emplace(digest_of(state), looks_);
    if (!is_new && !kept_) {
      period_ = looks_ - last->second;
      due_ = looks_ + period_;
      kept_ = std::move(state);
    }
    last->second = looks_;
    return std::nullopt;
  }

 private:
  /// Two states with the same digest may differ: a digest only says when to keep a state.
  static std::uint64_t digest_of(State const& state) {
    std::uint64_t digest = state.size();
    for (std::int64_t const value : state) {
      digest = (digest ^ static_cast<std::uint64_t>(value)) * 0x9e3779b97f4a7c15U;
      digest ^= digest >> 29;
    }
    return digest;
  }

  std::int32_t looks_ = 0;
  std::unordered_map<std::uint64_t, std::int32_t> last_looks_;  ///< by digest
  std::optional<State> kept_;
  std::int32_t period_ = 0;  ///< in looks
  std::int32_t due_ = 0;     ///< the look at which `kept_` must come back
};

/// Finds the repeats of a stage's windows (RepeatedWindows) in an iteration that change the
/// allocator as earlier ones did.
///
/// Why they can be left out: each repeat makes the same requests and releases. If the allocator is
/// at the end of one repeat in the state in which it was at the end of an earlier one, and buffers
/// of the same age lie in the same blocks, everything after it repeats what followed then.
///
/// A repeat must contain at least all passes in flight. Then all buffers that are live at the end
/// of the second repeat, or of a later one, have been allocated in repeats. Only then does an age,
/// which is the number of buffers allocated since, identify an allocation: a buffer from before the
/// first repeat may have the age that one from a repeat has later.
///
/// A round that is watched (libsim/allocator/growth_watch.hpp) stays complete: repeats that are
/// left out would take no segment, and serve the same requests by blocks of the same sizes.
class RepeatSearch {
 public:
  /// To be called at the end of each repeat but the last (BufferEvents::repeats_left()).
  /// `blocks`: blocks of live buffers, by number; no_block if a buffer is not live.
  /// \\return how many of the repeats that are left do the same as earlier ones, to be skipped at
  /// once.
  std::int32_t skippable(Allocator const& allocator,
                         BufferEvents const& events,
                         std::vector<BlockId> const& blocks);

 private:
  RepeatedState states_;
  std::int32_t ended_ = 0;  ///< repeats that have ended
  bool is_over_ = false;
  std::size_t first_live_ = 0;  ///< buffers before this one are not live
};

}  // namespace stagecraft
