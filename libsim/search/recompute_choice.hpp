#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "libsim/search/block_summaries.hpp"
#include "libsim/search/search_space.hpp"
#include "libsim/search/stage_facts.hpp"
#include "libsim/search/stage_moments.hpp"
#include "libsim/search/time_bound.hpp"

namespace stagecraft {

/// Memory and times of an arrangement's stages under each policy: exactly what simulation gives for
/// the memory, and for the time that stages compute.
class RecomputeChoices {
 public:
  /// The moments must outlive this object, and be those of the arrangement's stages.
  RecomputeChoices(Arrangement const& arrangement,
                   ArrangedStages contents,
                   BlockSummaries& blocks,
                   std::vector<StageMoments> const& moments,
                   MessageSizes const& sizes,
                   std::int64_t microbatches);

  /// Policies that all stages may have in common, none and selective first.
  std::vector<PolicyCode> const& policies() const { return policies_; }
  int stages() const { return stages_; }

  /// Bytes that a stage holds at most under a policy, less what it holds all the time.
  std::int64_t held(int stage, std::size_t policy) const {
    return held_[static_cast<std::size_t>(stage) * policies_.size() + policy];
  }
  /// The recompute advisor: the policy that adds least to a stage's time of those with which the
  /// stage holds at most `room` bytes, policies like all others; the earliest of equals. Nothing
  /// where none fits.
  std::optional<std::size_t> least_recompute(int stage, std::int64_t room) const;

  /// Times of a stage under a policy.
  StageTimes times(int stage, std::size_t policy, StageFacts const& facts) const;
  /// Times of a stage that stores `stored` microbatches of each window, under a policy else.
  StageTimes window_times(int stage, std::size_t policy, int stored, StageFacts const& facts) const;

  /// No more microbatches of a stage's window than this can be stored in `room` bytes; 0 where
  /// nothing can be said to fit.
  int most_stored(int stage, std::size_t policy, std::int64_t room) const;
  /// Bytes that a stage with a window holds at some time at least, whatever is stored.
  std::int64_t least_held_with_window(int stage, std::size_t policy) const;

 private:
  StageLoad const& load(int stage, std::size_t policy) const {
    return loads_[contents_.number_of(stage) * policies_.size() + policy];
  }
  /// Picoseconds of all chunks of a stage for one microbatch.
  std::int64_t picoseconds(int stage, std::size_t policy) const {
    return picoseconds_[contents_.number_of(stage) * policies_.size() + policy];
  }
  std::int64_t warm_bytes(int stage, std::size_t policy) const;

  int stages_;
  int chunks_;
  std::int64_t microbatches_;
  LayerShares shares_;
  ArrangedStages contents_;
  std::vector<StageMoments> const& moments_;
  MessageSizes sizes_;
  std::vector<PolicyCode> policies_;
  std::vector<StageLoad> loads_;           ///< by distinct stage and policy
  std::vector<std::int64_t> picoseconds_;  ///< likewise
  std::vector<std::int64_t> held_;         ///< by stage and policy
};

}  // namespace stagecraft
