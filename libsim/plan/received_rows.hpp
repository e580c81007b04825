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

/// The rows that the experts of a rank have in one layer for one microbatch.
struct ExpertRows {
  std::int64_t received = 1;  ///< rows from the rank's expert group
  std::int64_t computed = 1;  ///< with the rows of the ranks that share the experts' weights
  /// If counts are forced: the rows of each expert of the rank with the largest load, which may
  /// compute fewer than `computed`. Null if products have `computed` rows, spread evenly.
  std::shared_ptr<GroupRows const> of_experts;

  friend bool operator==(ExpertRows const& a, ExpertRows const& b) {
    bool const is_same = a.of_experts == b.of_experts ||
                         (a.of_experts && b.of_experts && *a.of_experts == *b.of_experts);
    return a.received == b.received && a.computed == b.computed && is_same;
  }
  /// Gives a shape room for the rows. The shape then refers to `of_experts`.
  void set_room(BlockShape& shape) const;
};

/// The rows that the experts of the ranks of a stage compute, if routing is uneven.
///
/// Ranks with the same position in a stage compute the same number of rows on every stage. An
/// object must not be shared between threads, not even through const functions, because it
/// remembers results.
///
/// If counts are forced, the rows that the members of an expert group receive in a layer for a
/// microbatch are together the rows that the group's replicas send.
class ReceivedRows {
 public:
  /// `plan`, of which the outline is enough, must outlive the object and stay where it is.
  explicit ReceivedRows(TrainingPlan const& plan);

  /// Rows that a rank receives for the k-th microbatch of its replica; an upper bound if the router
  /// decides.
  std::int64_t of(int rank, LayerConfig const& kind, std::int64_t layer, MicrobatchId k) const;
  /// Rows that a rank computes for the k-th microbatch of its replica.
  std::int64_t computed(int rank,
                        LayerConfig const& kind,
                        std::int64_t layer,
                        MicrobatchId k) const;
  /// Rows of each expert of the rank. Pre: is_forced().
  std::vector<std::int64_t> rows_of_experts(int rank,
                                            LayerConfig const& kind,
                                            std::int64_t layer,
                                            MicrobatchId k) const;
  /// The rows of the rank with the largest load (load_of()) among `ranks` or, if that is empty,
  /// among last_ranks(). There is room for the most that one of these ranks receives and computes.
  ExpertRows most(std::span<int const> ranks,
                  LayerConfig const& kind,
                  std::int64_t layer,
                  MicrobatchId k) const;
  /// The result of find_last_ranks(), computed at the first call.
  std::vector<int> const& last_ranks() const;
  /// The fewest rows that the rank computes in any layer of a kind, over all microbatches.
  /// `of_experts` spreads them in the cheapest way and stays within what most() gives for
  /// last_ranks() in each of these layers: there, products have the rows of the rank with the
  /// largest load, which may be fewer.
  ExpertRows least(int rank, LayerConfig const& kind) const;
  /// The rank of last_ranks() whose fewest rows (least()), summed over the layers, are most; the
  /// first of several. A plan with room for these rows holds no more than the fullest rank does.
  int fullest_at_least() const;
  /// The sets of ranks of a stage that compute the same numbers of rows in all layers and
  /// microbatches: the first rank and the size of each set.
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
  /// The number of a replica's microbatches whose rows may differ.
  int microbatch_classes() const;
  struct ExpertGroup {
    std::vector<RankId> members;  ///< of the first stage
    std::vector<RankPlace> places;
    bool has_whole_replicas = false;
    std::int64_t replicas = 0;  ///< replicas that have ranks in it
  };
  /// The places of a stage's ranks in their expert groups. Only uneven routing needs them, and a
  /// large job has many ranks.
  struct ExpertRanks {
    explicit ExpertRanks(TrainingPlan const& plan);
    std::vector<ExpertGroup> groups;
    /// By rank: the number of its group, and the rank's position in that group.
    std::vector<std::pair<std::size_t, int>> position;
    std::vector<std::vector<int>> sharers;  ///< by rank: who share its experts' weights, itself too
  };
  ExpertRanks const& ranks() const;
  std::vector<std::int64_t> const& rows_of_group(std::size_t group,
                                                 std::int64_t layer,
                                                 MicrobatchId k) const;
  std::vector<std::int64_t> const& rows_of_part(std::int32_t counts, RankPlace const& place) const;

  TrainingPlan const& plan_;
  TrainingConfig const& config_;
  BlockShape const& shape_;
  ForcedRouting const* forced_;
  mutable std::optional<ExpertRanks> ranks_;  ///< nullopt: not asked for yet
  mutable std::vector<int> last_ranks_;       ///< empty: not found yet
  /// By group and the counts of its members' microbatches: rows of each expert.
  mutable std::map<std::pair<std::size_t, std::vector<std::int32_t>>, std::vector<std::int64_t>>
      of_groups_;
  mutable std::map<std::pair<std::int32_t, std::pair<int, int>>, std::vector<std::int64_t>>
      of_parts_;
};

template <class Visit>
void ReceivedRows::visit_layers(Visit visit) const {
  LayerKinds const kinds = kinds_with_predictions(config_.model);
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
