#pragma once

#include <cstdint>
#include <vector>

#include "libsim/search/search_request.hpp"

namespace stagecraft {

/// What a rank's blocks are written in: one microbatch's share of a layer.
struct ShapeChoice {
  int tensor = 1;
  bool sequence = false;
  std::int64_t micro = 1;
};

/// The rest of the ranks, and the schedule they run.
struct ScheduleChoice {
  int pipeline = 1;
  int data = 1;
  int interleave = 1;
  ScheduleKind kind = ScheduleKind::one_f_one_b;
};

/// Layers of a stage, all chunks together: of the first stage, of each between, of the last. A lone
/// stage is the first.
struct LayerShares {
  std::int64_t first = 0;
  std::int64_t middle = 0;
  std::int64_t last = 0;

  std::int64_t of(int stage, int stages) const {
    if (stage == 0) return first;
    return stage + 1 == stages ? last : middle;
  }
  std::int64_t sum(int stages) const {
    return first + (stages > 2 ? (stages - 2) * middle : 0) + (stages > 1 ? last : 0);
  }
  friend bool operator==(LayerShares const&, LayerShares const&) = default;
};

/// Everything about a plan but recompute and the optimizer's sharding.
struct Arrangement {
  ShapeChoice shape;
  ScheduleChoice schedule;
  LayerShares shares;
};

/// Layers of the largest chunk.
std::int64_t largest_chunk(Arrangement const& arrangement);

/// The space, in its one order (ties are broken by it): tensor ascending, then sequence parallelism
/// (off, on), microbatch size ascending, all as far as the model allows.
std::vector<ShapeChoice> shape_choices(SearchRequest const& request);

/// For one shape: pipeline ascending, then 1F1B, GPipe (from two stages on), and interleaved by
/// ascending chunks a stage, in groups of p microbatches. Sizes that no run may have are left out.
std::vector<ScheduleChoice> schedule_choices(SearchRequest const& request,
                                             ShapeChoice const& shape);

/// For one schedule: even where possible, then uneven first and last stages. These hold at most as
/// many layers as a stage between them (they hold embedding and head besides), and that at most a
/// quarter more than an even share, rounded up to whole chunks; so do two stages alone. Chunks of a
/// stage are equal, and only without interleaving may an end have no layer.
std::vector<LayerShares> share_choices(SearchRequest const& request,
                                       ScheduleChoice const& schedule);

/// Whether there is any: a shape with a schedule and shares.
bool has_plans(SearchRequest const& request);

/// Policies that are the same on all stages whose largest chunk has so many layers: none,
/// selective, full in groups of N layers (divisors of a chunk), full of the first K < chunk layers.
/// Not filtered: other policies are put together from them.
std::vector<PolicyCode> uniform_policies(std::int64_t chunk_layers);

/// The policy that a code stands for. Pre: not per_stage.
RecomputePolicy policy_of(PolicyCode code);

/// The run that an arrangement stands for.
TrainingConfig make_config(SearchRequest const& request,
                           Arrangement const& arrangement,
                           std::vector<RecomputePolicy> recompute,
                           bool distributed_optimizer);

/// Whether the filter lets a value through.
template <typename Value>
bool allows(std::vector<Value> const& values, Value const& value) {
  if (values.empty()) return true;
  for (auto const& allowed : values) {
    if (allowed == value) return true;
  }
  return false;
}

}  // namespace stagecraft
