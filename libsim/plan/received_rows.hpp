#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "libsim/model/block_program.hpp"
#include "libsim/model/forced_routing.hpp"
#include "libsim/plan/plan_groups.hpp"
#include "libsim/plan/training_plan.hpp"

namespace stagecraft {

/// The counts that a configuration forces; null if it forces none.
///
/// With a factor F, each expert of the first rank of every expert group computes F times as many
/// rows as balanced, rounded up, and the others share the rest as evenly as whole rows allow.
std::shared_ptr<ForcedRouting const> forced_routing(TrainingConfig const& config);

/// How many rows the experts of the ranks of a stage compute, if routing is uneven.
///
/// Ranks that have the same position in a stage compute as many rows on every stage.
class ReceivedRows {
 public:
  /// `plan`, of which the outline is enough, must outlive the object and stay where it is.
  explicit ReceivedRows(TrainingPlan const& plan);

  /// Rows of a rank for the k-th microbatch of its replica; if the router decides, its most.
  std::int64_t of(int rank, LayerConfig const& kind, std::int64_t layer, std::int64_t k) const;
  /// The most of some ranks.
  std::int64_t most(RankChoice const& ranks,
                    LayerConfig const& kind,
                    std::int64_t layer,
                    std::int64_t k) const;
  /// The fewest rows of a rank in any layer of a kind and any microbatch.
  std::int64_t least(int rank, LayerConfig const& kind) const;
  /// The rank whose fewest rows, summed over the layers, are most: a plan for it with room for
  /// these rows holds no more than the fullest rank does. The first of several.
  int fullest_at_least() const;
  /// Ranks of a stage that compute as many rows as each other in all layers and microbatches: the
  /// first of each such set, and how many there are.
  std::vector<std::pair<int, int>> distinct_ranks() const;
  /// Whether the k-th microbatches of replicas may differ from each other in rows.
  bool depends_on_microbatch() const {
    return forced_ != nullptr && forced_->depends_on_microbatch();
  }

 private:
  /// Of how many microbatches of a replica the rows may differ.
  std::int64_t microbatch_classes() const;
  struct ExpertGroup {
    std::vector<RankId> members;  ///< of the first stage
    std::vector<RankPlace> places;
    bool has_whole_replicas = false;
  };
  std::vector<std::int64_t> const& rows_of_group(std::size_t group,
                                                 std::int64_t layer,
                                                 std::int64_t k) const;
  std::vector<std::int64_t> const& rows_of_part(std::int32_t counts, RankPlace const& place) const;

  TrainingConfig const& config_;
  BlockShape const& shape_;
  ForcedRouting const* forced_;
  std::vector<ExpertGroup> expert_groups_;
  std::vector<std::pair<std::size_t, int>> position_;  ///< by rank: its group, and member
  /// By group and the counts of its members' microbatches: rows of each expert.
  mutable std::map<std::pair<std::size_t, std::vector<std::int32_t>>, std::vector<std::int64_t>>
      of_groups_;
  mutable std::map<std::pair<std::int32_t, std::pair<int, int>>, std::vector<std::int64_t>>
      of_parts_;
};

}  // namespace stagecraft
