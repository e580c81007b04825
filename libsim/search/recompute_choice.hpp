#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "libsim/search/block_summaries.hpp"
#include "libsim/search/search_request.hpp"
#include "libsim/search/search_space.hpp"
#include "libsim/search/stage_facts.hpp"
#include "libsim/search/stage_moments.hpp"
#include "libsim/search/time_bound.hpp"
#include "libsim/units/units.hpp"

namespace stagecraft {

/// Time and memory of an iteration of one stage whose ranks share units, under each policy.
///
/// Units make blocks differ by their place in the model and by microbatch: the first one, those
/// between, the last one. But what a block does depends on no other block's recompute. So the plans
/// in which all layers do the same have the blocks of all others. If the rows of experts are given,
/// times are those of the plan, and memory is that of one rank, which the fullest rank may exceed.
class UnitSummaries {
 public:
  /// Pre: the sharding is one of unit_shardings() for the arrangement.
  UnitSummaries(SearchRequest const& request, Arrangement const& arrangement, Sharding sharding);

  /// All passes of an iteration, one after the other; the step is not counted.
  /// Pre: the policy is one of unit_policies().
  PassSummary iteration(PolicyCode policy);
  /// Whether memory is that of every rank, not a lower bound. Pre: iteration() was called.
  bool are_exact() const { return !differ_; }

 private:
  /// Both passes of a block.
  struct BlockPasses {
    PassSummary forward;
    PassSummary backward;
  };
  /// The passes of a plan's blocks, by microbatch that differs and position in the chunk.
  using ByMicrobatch = std::vector<std::vector<BlockPasses>>;

  ByMicrobatch const& passes_of(PolicyCode policy);
  ByMicrobatch made_passes(PolicyCode policy);

  SearchRequest const& request_;
  TrainingConfig config_;      ///< with no more microbatches than differ
  std::int64_t microbatches_;  ///< of the iteration
  bool differ_ = false;        ///< whether the ranks compute different numbers of rows
  std::map<PolicyCode, ByMicrobatch> known_;
};

/// Memory and times of an arrangement's stages under each policy. Memory and the time that stages
/// compute are exactly those of a simulation, if those of the blocks are (BlockSummaries).
class RecomputeChoices {
 public:
  /// `moments` are those of the arrangement's stages, and must outlive this object. `microbatches`:
  /// of a replica, that pass through each chunk. `modules`: module_policies().
  RecomputeChoices(Arrangement const& arrangement,
                   ArrangedStages contents,
                   BlockSummaries& blocks,
                   std::vector<StageMoments> const& moments,
                   MessageSizes const& sizes,
                   std::int64_t microbatches,
                   std::span<PolicyCode const> modules);

  /// The same of an arrangement of one stage that shares units.
  RecomputeChoices(Arrangement const& arrangement,
                   ArrangedStages contents,
                   UnitSummaries& units,
                   std::span<PolicyCode const> modules);

  /// The policies that all stages may have in common, none and selective first.
  std::vector<PolicyCode> const& policies() const { return policies_; }
  IdRange<StageId> stage_ids() const { return IdRange<StageId>{stages_}; }

  /// A stage's peak under a policy, above what it holds throughout the iteration. A lower bound if
  /// !is_exact().
  Bytes held(StageId stage, std::size_t policy) const {
    return held_[stage.index() * policies_.size() + policy];
  }
  bool is_exact() const { return is_exact_; }
  /// The recompute advisor: of the policies with which the stage holds at most `room`, the one that
  /// adds the least time; of equal ones the first. Returns nullopt if none fits.
  std::optional<std::size_t> least_recompute(StageId stage, Bytes room) const;
  /// All of these policies in that order.
  std::vector<std::size_t> by_time(StageId stage, Bytes room) const;

  /// The times of a stage under a policy.
  StageTimes times(StageId stage, std::size_t policy, StageFacts const& facts) const;
  /// The times of a stage that stores `stored` microbatches of each window and follows a policy for
  /// the others.
  StageTimes window_times(StageId stage,
                          std::size_t policy,
                          int stored,
                          StageFacts const& facts) const;

  /// An upper bound of the microbatches of a stage's window that can be stored in `room`.
  int most_stored(StageId stage, std::size_t policy, Bytes room) const;
  /// A lower bound of the peak of a stage with a window, whatever is stored.
  Bytes least_held_with_window(StageId stage, std::size_t policy) const;

 private:
  StageLoad const& load(StageId stage, std::size_t policy) const {
    return loads_[contents_.number_of(stage) * policies_.size() + policy];
  }
  /// The time of all chunks of a stage for one microbatch.
  SimTime time(StageId stage, std::size_t policy) const {
    return times_[contents_.number_of(stage) * policies_.size() + policy];
  }
  SimTime hidable(StageId stage, std::size_t policy) const {
    return hidable_[contents_.number_of(stage) * policies_.size() + policy];
  }
  Bytes warm_bytes(StageId stage, std::size_t policy) const;
  /// Whether the stage may follow a policy if it has `room`.
  bool may_have(StageId stage, std::size_t policy, Bytes room) const {
    PolicyCode const code = policies_[policy];
    bool const is_full = code.kind == RecomputeKind::uniform || code.kind == RecomputeKind::block;
    return held(stage, policy) <= room &&
           (!is_full || code.layers <= shares_.of(stage, stages_) / chunks_);
  }

  bool is_exact_;
  int stages_;
  int chunks_;                 ///< of a stage, of one copy of the model
  std::int64_t microbatches_;  ///< of a stage with units 1: the whole iteration
  LayerShares shares_;
  ArrangedStages contents_;
  std::span<StageMoments const> moments_;
  MessageSizes sizes_{};
  std::vector<PolicyCode> policies_;
  std::vector<StageLoad> loads_;  ///< by distinct stage and policy
  std::vector<SimTime> times_;    ///< likewise
  std::vector<SimTime> hidable_;  ///< likewise: of the times, what passes in pairs can hide
  std::vector<Bytes> held_;       ///< by stage and policy
};

}  // namespace stagecraft
