#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "libsim/model/layer_kinds.hpp"
#include "libsim/plan/training_plan.hpp"
#include "libsim/program/block_program.hpp"
#include "libsim/program/forced_routing.hpp"
#include "libsim/ranks/plan_groups.hpp"

namespace stagecraft {

/// The counts that a configuration forces; null if it forces none.
///
/// With a factor F, each expert of the first rank of every expert group computes F times as many
/// rows as balanced, rounded up, and the others share the rest as evenly as whole rows allow.
std::shared_ptr<ForcedRouting const> forced_routing(TrainingConfig const& config);

/// What the experts of a rank get in one layer for one microbatch.
struct ExpertRows {
  std::int64_t received = 1;  ///< from the rank's expert group
  std::int64_t computed = 1;  ///< with what the ranks receive that share the experts' weights
  /// If counts are forced: the rows of each expert of the rank with the largest load, which may
  /// compute fewer than `computed`. Null if they are as even as products of `computed` rows.
  std::shared_ptr<GroupRows const> of_experts;

  friend bool operator==(ExpertRows const& a, ExpertRows const& b) {
    bool const is_same = a.of_experts == b.of_experts ||
                         (a.of_experts && b.of_experts && *a.of_experts == *b.of_experts);
    return a.received == b.received && a.computed == b.computed && is_same;
  }
  /// Gives a shape room for them; it then refers to them.
  void set_room(BlockShape& shape) const;
};

/// How many rows the experts of the ranks of a stage compute, if routing is uneven.
///
/// Ranks that have the same position in a stage compute as many rows on every stage. Not safe to
/// share between threads, not even through const functions: what they find is kept.
///
/// If counts are forced, the rows that the members of an expert group receive in a layer for a
/// microbatch are together those that the group's replicas send.
class ReceivedRows {
 public:
  /// `plan`, of which the outline is enough, must outlive the object and stay where it is.
  explicit ReceivedRows(TrainingPlan const& plan);

  /// Rows that a rank receives for the k-th microbatch of its replica; if the router decides, its
  /// most.
  std::int64_t of(int rank, LayerConfig const& kind, std::int64_t layer, MicrobatchId k) const;
  /// Those that it computes.
  std::int64_t computed(int rank,
                        LayerConfig const& kind,
                        std::int64_t layer,
                        MicrobatchId k) const;
  /// Those of each of its experts. Pre: is_forced().
  std::vector<std::int64_t> rows_of_experts(int rank,
                                            LayerConfig const& kind,
                                            std::int64_t layer,
                                            MicrobatchId k) const;
  /// What the rank computes that has the largest load (load_of()), of `ranks` or, if that is empty,
  /// of last_ranks(), with room for the most that one of them receives and computes.
  ExpertRows most(std::span<int const> ranks,
                  LayerConfig const& kind,
                  std::int64_t layer,
                  MicrobatchId k) const;
  /// What find_last_ranks() gives; found when first asked for.
  std::vector<int> const& last_ranks() const;
  /// The fewest rows of a rank in any layer of a kind and any microbatch. `of_experts` are spread
  /// so that they cost least, and are no more than what most() gives for last_ranks() in any of
  /// these layers: products are of the rank with the largest load, which may have fewer rows.
  ExpertRows least(int rank, LayerConfig const& kind) const;
  /// Of last_ranks(), the rank whose fewest rows, summed over the layers, are most: a plan for it
  /// with room for these rows holds no more than the fullest rank does. The first of several.
  int fullest_at_least() const;
  /// Ranks of a stage that compute as many rows as each other in all layers and microbatches: the
  /// first of each such set, and how many there are.
  std::vector<std::pair<int, int>> distinct_ranks() const;
  /// Calls visit(kind, layer, k) for all sparse layers and microbatches that may differ.
  template <class Visit>
  void visit_layers(Visit visit) const;
  /// Whether the configuration gives the rows of experts, by counts or a factor.
  bool is_forced() const { return forced_ != nullptr; }
  /// Whether the k-th microbatches of replicas may differ from each other in rows.
  bool depends_on_microbatch() const {
    return forced_ != nullptr && forced_->depends_on_microbatch();
  }

 private:
  /// The sum over layers and microbatches of the largest load of one of these ranks.
  std::int64_t load_of_set(std::vector<int> const& ranks) const;
  /// The fewest rows of a rank in any layer of a kind and any microbatch.
  ExpertRows fewest(int rank, LayerConfig const& kind) const;
  /// Of how many microbatches of a replica the rows may differ.
  int microbatch_classes() const;
  struct ExpertGroup {
    std::vector<RankId> members;  ///< of the first stage
    std::vector<RankPlace> places;
    bool has_whole_replicas = false;
    std::int64_t replicas = 0;  ///< of which it has ranks
  };
  std::vector<std::int64_t> const& rows_of_group(std::size_t group,
                                                 std::int64_t layer,
                                                 MicrobatchId k) const;
  std::vector<std::int64_t> const& rows_of_part(std::int32_t counts, RankPlace const& place) const;

  TrainingPlan const& plan_;
  TrainingConfig const& config_;
  BlockShape const& shape_;
  ForcedRouting const* forced_;
  std::vector<ExpertGroup> expert_groups_;
  std::vector<std::pair<std::size_t, int>> position_;  ///< by rank: its group, and member
  std::vector<std::vector<int>> sharers_;  ///< by rank: those that share its experts' weights
  mutable std::vector<int> last_ranks_;    ///< empty: not found yet
  /// By group and the counts of its members' microbatches: rows of each expert.
  mutable std::map<std::pair<std::size_t, std::vector<std::int32_t>>, std::vector<std::int64_t>>
      of_groups_;
  mutable std::map<std::pair<std::int32_t, std::pair<int, int>>, std::vector<std::int64_t>>
      of_parts_;
};

template <class Visit>
void ReceivedRows::visit_layers(Visit visit) const {
  LayerKinds const kinds{config_.model};
  IdRange<MicrobatchId> const classes{microbatch_classes()};
  for (int layer = 0; layer < kinds.layers(); ++layer) {
    LayerConfig const& kind = kinds.of_layer(layer);
    if (!kind.experts) continue;
    for (MicrobatchId const k : classes) visit(kind, layer, k);
  }
}

/// Returns the ranks of rows.last_ranks() whose loads, summed over layers and microbatches, are the
/// largest and the smallest; the first one if several are equal. Returns nullopt if all ranks have
/// the same load in every layer and microbatch.
std::optional<std::pair<int, int>> hottest_and_coldest(ReceivedRows const& rows);

}  // namespace stagecraft
