#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>

#include "libsim/schedule/unit_order.hpp"
#include "libsim/units/enum_names.hpp"

namespace stagecraft {

enum class ShardingKind : std::uint8_t {
  none,
  distributed_optimizer,  ///< optimizer state, as ZeRO-1 does
  fsdp1,  ///< parameters and gradients as well, which units gather when they run: PyTorch's
          ///< FullyShardedDataParallel
  fsdp2,  ///< the same: PyTorch's fully_shard
  zero1,  ///< optimizer state, as DeepSpeed's stage 1: gradients have the model's type
  zero3,  ///< all, as DeepSpeed's stage 3: shards of the model's type beside master copies
};

template <>
struct EnumNames<ShardingKind> {
  static constexpr std::array<std::pair<ShardingKind, std::string_view>, 6> all{
      {{ShardingKind::none, "none"},
       {ShardingKind::distributed_optimizer, "distributed_optimizer"},
       {ShardingKind::fsdp1, "fsdp1"},
       {ShardingKind::fsdp2, "fsdp2"},
       {ShardingKind::zero1, "zero1"},
       {ShardingKind::zero3, "zero3"}}};
};

/// Which microbatches of an iteration reduce the gradients of units.
enum class UnitSync : std::uint8_t { last, every };

template <>
struct EnumNames<UnitSync> {
  static constexpr std::array<std::pair<UnitSync, std::string_view>, 2> all{
      {{UnitSync::last, "last"}, {UnitSync::every, "every"}}};
};

/// The type of what units store, gather or reduce; `automatic` is the kind's.
enum class UnitType : std::uint8_t { automatic, fp32, bf16, fp16 };

template <>
struct EnumNames<UnitType> {
  static constexpr std::array<std::pair<UnitType, std::string_view>, 4> all{
      {{UnitType::automatic, "auto"},
       {UnitType::fp32, "fp32"},
       {UnitType::bf16, "bf16"},
       {UnitType::fp16, "fp16"}}};
};

/// Key `reshard_after_forward`: whether units free their parameters after forward, or to how many
/// ranks they are then spread.
struct Reshard {
  enum class Kind : std::uint8_t { automatic, yes, no, to_ranks };
  Kind kind = Kind::automatic;
  int ranks = 0;  ///< to_ranks only

  friend constexpr auto operator<=>(Reshard const&, Reshard const&) = default;
};

/// Key `prefetch`: 0 is `implicit`.
struct Prefetch {
  int units = 0;

  friend constexpr auto operator<=>(Prefetch const&, Prefetch const&) = default;
};

/// What units of a kind have in common that no key says.
struct UnitKind {
  ShardingKind kind;
  /// Whether the embedding and what follows the last layer are one unit, the root's; else only if
  /// they share a table.
  bool has_root;
  bool is_flat;  ///< whether a unit's parameters are one tensor: padded once, and not copied out
  bool cuts_rows = false;  ///< whether a parameter is cut between any two of its elements
  /// Whether shards have the model's type, and the optimizer master copies of them.
  bool has_master = false;
  bool reduces_every = false;  ///< whether every microbatch reduces, whatever key `sync` says
};

inline constexpr std::array unit_kinds{
    UnitKind{.kind = ShardingKind::fsdp1, .has_root = true, .is_flat = true},
    UnitKind{.kind = ShardingKind::fsdp2, .has_root = false, .is_flat = false},
    // deepspeed/runtime/zero: partition_parameters.py cuts each parameter after padding it to a
    // multiple of the ranks, and copies it out of what was gathered; stage3.py reduces always.
    UnitKind{.kind = ShardingKind::zero3,
             .has_root = false,
             .is_flat = false,
             .cuts_rows = true,
             .has_master = true,
             .reduces_every = true},
};

/// Null: the kind has no units.
constexpr UnitKind const* find_unit_kind(ShardingKind kind) {
  for (UnitKind const& row : unit_kinds) {
    if (row.kind == kind) return &row;
  }
  return nullptr;
}

/// The buffers that the ranks with the same parameters share out among themselves. Key `sharding`.
struct Sharding {
  ShardingKind kind = ShardingKind::none;
  int group = 0;  ///< ranks that share a parameter; 0: all that would hold it
  Reshard reshard_after_forward{};
  bool reshard_after_backward = true;
  Prefetch prefetch{};
  UnitSync sync = UnitSync::last;
  UnitType stored_dtype = UnitType::automatic;
  UnitType parameter_dtype = UnitType::automatic;
  UnitType reduce_dtype = UnitType::fp32;

  /// Whether each rank keeps only the optimizer state of its own shard of the parameters.
  constexpr bool shares_optimizer() const { return kind != ShardingKind::none; }
  /// Whether each rank keeps only its shard of parameters and gradients, too.
  constexpr bool shares_parameters() const { return find_unit_kind(kind) != nullptr; }
  /// Whether the optimizer's state is all that ranks share.
  constexpr bool shares_optimizer_alone() const {
    return shares_optimizer() && !shares_parameters();
  }
  /// Whether the rank updates master copies of its parameters, if these have 16 bits.
  constexpr bool has_master() const {
    UnitKind const* const units = find_unit_kind(kind);
    return units == nullptr || units->has_master;
  }
  friend constexpr auto operator<=>(Sharding const&, Sharding const&) = default;
};

/// A kind's own values of the keys: DeepSpeed reduces the gradients of every microbatch, in the
/// type that they have.
constexpr Sharding default_sharding(ShardingKind kind) {
  Sharding sharding{.kind = kind};
  if (kind == ShardingKind::zero3) {
    sharding.reduce_dtype = UnitType::automatic;
    sharding.sync = UnitSync::every;
  }
  return sharding;
}

/// What is in the memory of the node instead of the accelerator's. Key `offload`.
/// Source: Megatron-LM, megatron/core/optimizer/cpu_offloading/hybrid_optimizer.py.
struct Offload {
  /// Fraction of a rank's elements of optimizer state that are there, and that the host updates.
  double optimizer = 0;
  bool overlap = false;       ///< whether copies to and from the host run beside its updates
  bool keeps_master = false;  ///< whether the accelerator keeps its master copies of them, too

  friend constexpr bool operator==(Offload const&, Offload const&) = default;
};

/// The sharding for which `memory.distributed_optimizer` is the short form.
constexpr Sharding sharding_of(bool distributed_optimizer) {
  return {.kind = distributed_optimizer ? ShardingKind::distributed_optimizer : ShardingKind::none};
}

/// When units gather, free and reduce. Pre: the sharding shares parameters.
constexpr UnitPolicy unit_policy(Sharding const& sharding) {
  using After = UnitPolicy::AfterForward;
  Reshard const& reshard = sharding.reshard_after_forward;
  // FullyShardedDataParallel frees what it keeps after forward only when it reduces.
  bool const keeps_between = sharding.kind == ShardingKind::fsdp1 &&
                             reshard.kind == Reshard::Kind::no && sharding.sync == UnitSync::last;
  return {.after_forward = reshard.kind == Reshard::Kind::automatic ? After::free_most
                           : reshard.kind == Reshard::Kind::no      ? After::keep
                                                                    : After::free,
          .kept_among = reshard.ranks,
          .frees_after_backward = sharding.reshard_after_backward && !keeps_between,
          .prefetch = sharding.prefetch.units,
          .reduces_every =
              sharding.sync == UnitSync::every || find_unit_kind(sharding.kind)->reduces_every};
}

}  // namespace stagecraft
