#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "libsim/search/block_summaries.hpp"
#include "libsim/search/search_request.hpp"
#include "libsim/search/search_space.hpp"

namespace stagecraft {

/// Time and memory of an iteration of one stage whose ranks share units, under each policy.
///
/// Units make blocks differ by their place in the model and by microbatch: the first one, those
/// between, the last one. But what a block does depends on no other block's recompute. So the plans
/// in which all layers do the same have the blocks of all others.
class UnitSummaries {
 public:
  /// Pre: the sharding is one of unit_shardings() for the arrangement.
  UnitSummaries(SearchRequest const& request, Arrangement const& arrangement, Sharding sharding);

  /// All passes of an iteration, one after the other; the step is not counted.
  /// Pre: the policy is one of unit_policies().
  PassSummary iteration(PolicyCode policy);

 private:
  /// Both passes of a block.
  struct BlockPasses {
    PassSummary forward;
    PassSummary backward;
  };
  /// The passes of a plan's blocks, by microbatch that differs and position in the chunk.
  using ByMicrobatch = std::vector<std::vector<BlockPasses>>;

  ByMicrobatch const& passes_of(PolicyCode policy);
  ByMicrobatch made_passes(PolicyCode policy) const;

  SearchRequest const& request_;
  TrainingConfig config_;      ///< with no more microbatches than differ
  std::int64_t microbatches_;  ///< of the iteration
  std::map<RecomputeKind, ByMicrobatch> known_;
};

}  // namespace stagecraft
