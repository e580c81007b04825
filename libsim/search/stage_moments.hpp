#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "libsim/search/block_summaries.hpp"
#include "libsim/search/search_request.hpp"
#include "libsim/search/search_space.hpp"

namespace stagecraft {

/// A chunk of a stage by its ends: the first chunk of the first stage (embedding) and the last of
/// the last (head) are special, all others of a stage are alike.
enum class ChunkClass : std::uint8_t { regular, special };

/// What a stage holds at an instant of its issue order, in numbers that no policy changes: how many
/// chunks of either class are in flight, and message buffers, of the whole hidden state and of
/// scattered pieces of it.
struct Holding {
  std::int32_t regular = 0;
  std::int32_t special = 0;
  std::int32_t wholes = 0;
  std::int32_t pieces = 0;
};

/// What the ends of a stage's chunks compute and hold under one policy.
struct StageLoad {
  PieceSummary regular;
  PieceSummary special;
};

/// Bytes of a message buffer.
struct MessageSizes {
  std::int64_t whole = 0;
  std::int64_t piece = 0;
};

/// Blocking exchanges of a stage between the beginning of its first forward and the end of its last
/// backward, by the neighbours they involve.
struct ExchangeCounts {
  std::int64_t with_next = 0;  ///< with the next stage only
  std::int64_t with_previous = 0;
  std::int64_t with_both = 0;
};

/// The instants of a stage's issue order at which its memory can be fullest.
///
/// Memory moves in issue order, by what chunks and messages do; all that a policy changes is what a
/// chunk does. So the peak under any policy is the largest, over a handful of instants, of what is
/// held then plus the peak of what runs then: exactly what the walk through all of the order finds.
struct StageMoments {
  /// Before a forward or backward of either class, and in the middle of exchanges: only those
  /// instants that hold most, none of them more than another in every number.
  std::array<std::vector<Holding>, 5> instants;
  int window = 1;  ///< store_window(): most forwards outstanding
  Holding warm;    ///< before the last forward of the first window, no backward having run
  ChunkClass after_warm = ChunkClass::regular;  ///< class of that forward
  ExchangeCounts exchanges;

  /// Bytes beyond what the stage holds at the start of an iteration.
  /// Pre: neither forward of `load` frees more than it keeps.
  std::int64_t peak(StageLoad const& load, MessageSizes const& sizes) const;
};

/// The moments of all stages of a schedule.
std::vector<StageMoments> make_stage_moments(TrainingConfig const& config);

/// Keeps the moments of schedules: policies, layers and most shapes share them. Threads may share
/// it too.
class StageMomentsCache {
 public:
  std::shared_ptr<std::vector<StageMoments> const> of(TrainingConfig const& config);

 private:
  using Key = std::array<int, 5>;
  std::mutex mutex_;
  std::map<Key, std::shared_ptr<std::vector<StageMoments> const>> known_;
};

}  // namespace stagecraft
