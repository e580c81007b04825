#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "libsim/schedule/ordered_schedule.hpp"
#include "libsim/search/policy_codes.hpp"
#include "libsim/search/search_request.hpp"

namespace stagecraft {

/// The choices that determine the programs of a rank's blocks.
struct ShapeChoice {
  int tensor = 1;
  bool sequence = false;
  std::int64_t micro = 1;
  int expert = 1;         ///< ranks that split the experts of a layer
  int expert_tensor = 1;  ///< ranks that share each expert's weights
  int context = 1;        ///< ranks that split each sequence

  /// Ranks of a stage that work on the same sequences.
  std::int64_t ranks_together() const { return std::int64_t{tensor} * context; }
  /// Ranks that hold the experts of a layer once.
  std::int64_t expert_ranks() const { return std::int64_t{expert} * expert_tensor; }
};

/// How the other axes divide the ranks, and the schedule that they run.
struct ScheduleChoice {
  int pipeline = 1;
  int data = 1;
  int interleave = 1;
  ScheduleKind kind = ScheduleKind::one_f_one_b;
  P2p p2p = P2p::blocking;

  /// The chunks that the layers of a stage are cut into: of one copy of the model.
  int cuts() const { return interleave / copies_of(kind); }
};

/// Where a schedule puts its chunks.
Placement placement_of(ScheduleChoice const& schedule);

/// Whether a search has schedules of the kind: its order, if it follows one, depends on its shape
/// alone.
bool is_searched(ScheduleKind kind);

/// The layers per stage, all chunks together: of the first stage, of each stage in the middle, of
/// the last. A single stage counts as the first.
struct LayerShares {
  std::int64_t first = 0;
  std::int64_t middle = 0;
  std::int64_t last = 0;

  std::int64_t of(StageId stage, int stages) const {
    if (stage == StageId{0}) return first;
    return next(stage) == StageId{stages} ? last : middle;
  }
  std::int64_t sum(int stages) const {
    return first + (stages > 2 ? (stages - 2) * middle : 0) + (stages > 1 ? last : 0);
  }
  friend bool operator==(LayerShares const&, LayerShares const&) = default;
};

/// A plan except for recompute and the sharding of the optimizer.
struct Arrangement {
  ShapeChoice shape;
  ScheduleChoice schedule;
  LayerShares shares;
};

/// What ranks share in every plan: nothing, or the optimizer's state if parameters are kept in 8
/// bits, which are made of master copies.
Sharding least_sharding(SearchRequest const& request);

/// The sharding, among the searched kinds without units, whose passes are fastest: one whose
/// gradients have the model's type, if there is one. A lower bound for it holds for all of them.
Sharding fastest_sharding(SearchRequest const& request);

/// The kinds of sharding that are searched: the filter's, or those that the software stack has.
std::vector<ShardingKind> const& sharding_kinds(SearchRequest const& request);
/// Their own values of keys, in their order: of Megatron-FSDP one for each strategy that is
/// searched.
std::vector<Sharding> kinds_of_shardings(SearchRequest const& request);
/// Whether some of them reduce units, and whether some do not.
bool searches_units(SearchRequest const& request);
bool searches_whole(SearchRequest const& request);

/// Whether some schedule of the space is laid out by a rule, and does not follow an order.
bool has_rules(SearchFilter const& filter);

/// The length from which on sequences are split without being asked for: shorter ones rarely gain.
inline constexpr std::int64_t least_split_sequence = 16384;
/// Whether the space has ranks that split sequences.
bool splits_sequences(SearchRequest const& request);

/// The number that divides the replicas of every run of a shape: their ranks together hold the
/// experts of a layer.
std::int64_t fewest_replicas(ShapeChoice const& shape);

/// Layers of the largest chunk.
std::int64_t largest_chunk(Arrangement const& arrangement);

/// The shapes of the space that the model allows, in its order, which also breaks ties: tensor
/// ascending, then context, ascending, then sequence parallelism (off, on), then microbatch size
/// ascending; of a model with experts then expert and expert tensor parallelism, ascending.
/// Sequences shorter than least_split_sequence are split only if the filter asks for it. Experts
/// are folded over tensor and data ranks; expert tensor parallelism divides tensor parallelism.
std::vector<ShapeChoice> shape_choices(SearchRequest const& request);

/// The schedules that a shape can have.
struct ScheduleChoices {
  std::vector<ScheduleChoice> legal;
  /// Left out for one reason alone: they have more chunk passes than a run may have.
  std::int64_t oversized = 0;
  /// Schedules that follow an order with more chunk passes than are searched.
  std::int64_t unordered = 0;

  auto begin() const { return legal.begin(); }
  auto end() const { return legal.end(); }
  std::size_t size() const { return legal.size(); }
  bool empty() const { return legal.empty(); }
};

/// The schedules for one shape: pipeline ascending, then 1F1B, GPipe (from two stages on), and
/// interleaved by ascending chunks per stage, in groups of p microbatches; each of them with the
/// base's p2p first, then with the other. A single stage has the base's. Sizes that no run may have
/// are left out.
ScheduleChoices schedule_choices(SearchRequest const& request, ShapeChoice const& shape);

/// The most chunk passes (stages x chunks x microbatches) of a schedule that follows an order and
/// is searched: none of its passes is skipped when it is simulated.
inline constexpr std::int64_t most_ordered_passes = 20'000;

/// The schedules for one shape that follow an order, from two stages on: pipeline ascending, then
/// by kind. Their transfers are overlapped. Some of them may not be legal, which takes an order to
/// know.
ScheduleChoices ordered_choices(SearchRequest const& request, ShapeChoice const& shape);

/// The layer shares for one schedule: even if possible, then uneven first and last stages. Those
/// hold at most as many layers as a middle stage, since they also hold embedding and head. A middle
/// stage (or one of two stages) holds at most a quarter more than an even share, rounded up to
/// whole chunks. All chunks of a stage are equal; a first or last stage without layers is possible
/// only without interleaving.
std::vector<LayerShares> share_choices(SearchRequest const& request,
                                       ScheduleChoice const& schedule);

/// The shardings of one layout that keep parameters whole, in the order of their kinds. One replica
/// has no optimizer state to share.
std::vector<Sharding> whole_shardings(SearchRequest const& request,
                                      ShapeChoice const& shape,
                                      ScheduleChoice const& schedule);

/// The shardings of one layout that reduce units: by kind and strategy, then by the ranks that
/// share a unit (all, then the groups of unit_groups()), then with units that free their parameters
/// after forward, as the kind does by default, and with units that keep them; each of these with
/// reductions as the kind runs them and, if it has the key `overlap`, in the other way. To free the
/// last unit as well would gather it twice in a row and hold no less. Empty for a layout whose
/// units are not modelled.
std::vector<Sharding> unit_shardings(SearchRequest const& request,
                                     ShapeChoice const& shape,
                                     ScheduleChoice const& schedule);

/// Whether the space has any plan: a shape with a schedule and shares.
bool has_plans(SearchRequest const& request);

/// Sets what a shape determines of how experts are split: its ranks, and a `routing.factor` that is
/// no larger than they allow.
void split_experts(TrainingConfig& config, ShapeChoice const& shape);

/// The run that an arrangement stands for.
TrainingConfig make_config(SearchRequest const& request,
                           Arrangement const& arrangement,
                           std::vector<RecomputePolicy> recompute,
                           Sharding sharding);

/// Whether a filter accepts a value.
template <typename Value>
bool allows(std::vector<Value> const& values, Value const& value) {
  if (values.empty()) return true;
  for (auto const& allowed : values) {
    if (allowed == value) return true;
  }
  return false;
}

}  // namespace stagecraft
