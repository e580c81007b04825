#pragma once

#include <optional>

#include "libsim/ranks/rank_groups.hpp"
#include "libsim/training/training_config.hpp"

namespace stagecraft {

/// The purposes for which ranks communicate, and the group of each. A collective names its group
/// by one of these; only RankGroups knows which ranks are in it.
struct GroupRoles {
  GroupId tensor{};                    ///< the t ranks that share each layer
  GroupId gradients{};                 ///< the ranks that hold the same dense parameters
  GroupId model{};                     ///< all stages and tensor ranks with the same data
  GroupId job{};                       ///< every rank
  std::optional<GroupId> kv_replicas;  ///< the t / g tensor ranks with the same key and value heads
  std::optional<GroupId> context;      ///< the c ranks that split each sequence, if c > 1; of two
                                       ///< levels the outer one
  std::optional<GroupId> context_inner;  ///< of two levels the inner one
  std::optional<GroupId> expert;         ///< the EP ranks that split the experts of a layer
  std::optional<GroupId> expert_tensor;  ///< the ETP ranks that share each expert's weights
  std::optional<GroupId> dispatch;  ///< the EP x ETP ranks, if tokens are not exchanged by rows
  std::optional<GroupId>
      expert_gradients;                ///< the ranks that hold the same experts, if there are any
  std::optional<GroupId> stage;        ///< all ranks of a stage, if routers count choices of all
  std::optional<GroupId> unit_copies;  ///< the ranks with the same shards of units, if several
  std::optional<GroupId> unit;         ///< the ranks that share units, if their parameters are
                                       ///< shared
  std::optional<GroupId> embedding;    ///< first and last stage, if both hold the tied embedding

  friend bool operator==(GroupRoles const&, GroupRoles const&) = default;
};

struct PlanGroups {
  RankGroups groups;
  GroupRoles roles;
};

/// The groups of a run. Ranks are numbered tensor fastest, then context (an axis that is there if
/// context > 1, and two of them for two levels), then data, then pipeline; for experts, expert
/// tensor fastest, then expert, then expert data, then pipeline.
/// Source: Megatron-LM, megatron/core/parallel_state.py, expert_decoder_rank_generator.
PlanGroups make_groups(TrainingConfig const& config);

/// A rank's position on the axes that its share of the work depends on.
struct RankPlace {
  int tensor = 0;   ///< 0 to t - 1
  int context = 0;  ///< part of the sequence, 0 to c - 1
  int data = 0;     ///< replica, 0 to d - 1
  StageId stage{};

  friend bool operator==(RankPlace const&, RankPlace const&) = default;
};

/// Pre: 0 <= rank < groups.ranks().
RankPlace place_of(RankGroups const& groups, RankId rank);

}  // namespace stagecraft
