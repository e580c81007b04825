#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "libsim/search/block_summaries.hpp"
#include "libsim/search/chunk_contents.hpp"
#include "libsim/search/search_request.hpp"
#include "libsim/search/search_space.hpp"

namespace stagecraft {

/// What a stage's distinct chunks (StageContent) compute and hold under one policy.
using StageLoad = std::vector<PieceSummary>;

/// Blocking exchanges of a stage between the beginning of its first forward and the end of its last
/// backward, by the neighbours they involve.
struct ExchangeCounts {
  std::int64_t with_next = 0;  ///< with the next stage only
  std::int64_t with_previous = 0;
  std::int64_t with_both = 0;

  friend bool operator==(ExchangeCounts const&, ExchangeCounts const&) = default;
};

/// What a stage holds at an instant of its issue order, in numbers that no policy changes.
class Holding {
 public:
  Holding() = default;
  explicit Holding(std::size_t distinct_chunks) : numbers_(2 * distinct_chunks + 2) {}

  /// Chunks in flight that are the stage's distinct chunk `i`: up to their backward, or of a split
  /// one up to the input gradient, and from that to the weight gradient.
  std::int32_t& chunks(int i) { return numbers_[2 * static_cast<std::size_t>(i) + 2]; }
  std::int32_t& for_weights(int i) { return numbers_[2 * static_cast<std::size_t>(i) + 3]; }
  std::int32_t& whole_messages() { return numbers_[0]; }
  std::int32_t& message_pieces() { return numbers_[1]; }

  std::int64_t bytes(StageLoad const& load, MessageSizes const& sizes) const {
    std::int64_t sum = numbers_[0] * sizes.whole + numbers_[1] * sizes.piece;
    for (std::size_t i = 0; i < load.size(); ++i) {
      sum += numbers_[2 * i + 2] * load[i].forward.net +
             numbers_[2 * i + 3] * load[i].held_for_weights();
    }
    return sum;
  }
  /// Whether none of its numbers is more than the other's.
  bool holds_no_more(Holding const& other) const {
    return std::ranges::equal(numbers_, other.numbers_, std::less_equal<>{});
  }
  /// Adds `times` times what there is more of than in `before`.
  void repeat_since(Holding const& before, std::int32_t times) {
    for (std::size_t i = 0; i < numbers_.size(); ++i) {
      numbers_[i] += times * (numbers_[i] - before.numbers_[i]);
    }
  }
  friend bool operator==(Holding const&, Holding const&) = default;

 private:
  std::vector<std::int32_t> numbers_;
};

/// The instants of a stage's issue order at which its memory can be fullest.
///
/// Memory moves in issue order, by what chunks and messages do; all that a policy changes is what a
/// chunk does. So the peak under any policy is the largest, over a handful of instants, of what is
/// held then plus the peak of what runs then: exactly what a replay of all of the order finds.
struct StageMoments {
  /// Before a forward of each distinct chunk, before a backward of each, whole or split, and in the
  /// middle of exchanges: only those instants that hold most, none of them more than another in
  /// every number.
  std::vector<std::vector<Holding>> before_forward;
  std::vector<std::vector<Holding>> before_backward;
  std::vector<std::vector<Holding>> before_input_gradient;
  std::vector<std::vector<Holding>> before_weight_gradient;
  std::vector<Holding> in_messages;
  int window = 1;      ///< store_window(): most forwards outstanding
  Holding warm;        ///< before the last forward of the first window, no backward having run
  int after_warm = 0;  ///< distinct chunk of that forward
  ExchangeCounts exchanges;

  /// Bytes beyond what the stage holds at the start of an iteration. Pre: no forward of `load`
  /// frees more than it keeps.
  std::int64_t peak(StageLoad const& load, MessageSizes const& sizes) const;
};

/// The moments of all stages of a schedule whose chunks are `stages`.
struct ScheduleMoments {
  std::vector<StageMoments> stages;
  BackwardPasses passes = BackwardPasses::whole;
};
ScheduleMoments make_stage_moments(TrainingConfig const& config, ArrangedStages const& stages);

/// Keeps the moments of schedules: policies, layers and most shapes share them. Threads may share
/// it too.
class StageMomentsCache {
 public:
  /// \throws ScheduleError  if the schedule has no order for the run.
  std::shared_ptr<ScheduleMoments const> of(TrainingConfig const& config,
                                            ArrangedStages const& stages);

 private:
  /// The schedule, and which of a stage's chunks are equal, stage by stage.
  using Key = std::pair<std::array<int, 6>, std::vector<int>>;
  std::mutex mutex_;
  std::map<Key, std::shared_ptr<ScheduleMoments const>> known_;
};

}  // namespace stagecraft
