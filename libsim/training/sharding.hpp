#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "libsim/schedule/unit_order.hpp"
#include "libsim/units/enum_names.hpp"

namespace stagecraft {

enum class ShardingKind : std::uint8_t {
  none,
  distributed_optimizer,  ///< optimizer state, as ZeRO-1 does
  fsdp1,          ///< parameters and gradients as well, which units gather when they run: PyTorch's
                  ///< FullyShardedDataParallel
  fsdp2,          ///< the same: PyTorch's fully_shard
  zero1,          ///< optimizer state, as DeepSpeed's stage 1: gradients have the model's type
  zero2,          ///< optimizer state and gradients, as DeepSpeed's stage 2: units reduce
  zero3,          ///< all, as DeepSpeed's stage 3: shards of the model's type beside master copies
  megatron_fsdp,  ///< what ShardingStrategy says: Megatron-LM's FullyShardedDataParallel
};

/// What Megatron-FSDP shares out. Key `strategy`, Megatron-LM's --data-parallel-sharding-strategy.
enum class ShardingStrategy : std::uint8_t { optim_grads_params, optim_grads, optim };

template <>
struct EnumNames<ShardingStrategy> {
  static constexpr std::array<std::pair<ShardingStrategy, std::string_view>, 3> all{
      {{ShardingStrategy::optim_grads_params, "optim_grads_params"},
       {ShardingStrategy::optim_grads, "optim_grads"},
       {ShardingStrategy::optim, "optim"}}};
};

/// Which microbatches of an iteration reduce the gradients of units.
enum class UnitSync : std::uint8_t { last, every };

template <>
struct EnumNames<UnitSync> {
  static constexpr std::array<std::pair<UnitSync, std::string_view>, 2> all{
      {{UnitSync::last, "last"}, {UnitSync::every, "every"}}};
};

/// The type of what units store, gather or reduce; `automatic` is the kind's. `low`, of gathers:
/// weights of quantised products in the bits of these, all else as `automatic`.
enum class UnitType : std::uint8_t { automatic, fp32, bf16, fp16, low };

template <>
struct EnumNames<UnitType> {
  static constexpr std::array<std::pair<UnitType, std::string_view>, 5> all{
      {{UnitType::automatic, "auto"},
       {UnitType::fp32, "fp32"},
       {UnitType::bf16, "bf16"},
       {UnitType::fp16, "fp16"},
       {UnitType::low, "low"}}};
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

/// Whose program shares state out in the way of a kind; `any` shares out nothing.
enum class ShardingFramework : std::uint8_t { any, megatron, pytorch, deepspeed };

/// What ranks share out; each includes those before it.
enum class SharedState : std::uint8_t { nothing, optimizer, gradients, parameters };

/// What is known about a kind of sharding. Whoever treats kinds differently asks a column.
struct ShardingTraits {
  ShardingKind kind;
  std::string_view name;        ///< in run files and on the command line
  std::string_view short_name;  ///< in tables of plans
  ShardingFramework framework = ShardingFramework::any;
  SharedState shares = SharedState::nothing;

  // What units are, for kinds that share out gradients.

  /// Whether the embedding and what follows the last layer are one unit, the root's; else only if
  /// they share a table.
  bool has_root = false;
  /// Whether a unit's parameters are one tensor, which is padded once, and not copied out.
  bool is_flat = false;
  bool cuts_rows = false;  ///< whether a parameter is cut between any two of its elements
  /// Flat: whether shards have whole rows of all parameters, of whatever length.
  bool joins_rows = false;
  /// Whether each gradient goes to the input of its unit's reduction once it is made.
  bool fills_input = false;
  /// Whether the parameters of experts, which other ranks hold, are parts of units of their own.
  bool splits_experts = false;
  /// Whether the root's parameters stay gathered until the last backward of an iteration.
  bool keeps_root = false;
  /// Whether units may keep their parameters from forward to backward, as key
  /// `reshard_after_forward` says.
  bool may_keep_gathered = true;
  /// Whether every rank gets whole sums, of which it keeps its own.
  bool all_reduces = false;
  /// Whether what is kept after forward is freed only when the unit reduces.
  bool keeps_until_reduced = false;

  // Types, and the kind's own values of keys.

  /// Without units: whether gradients have the model's type, in which autograd makes them,
  /// whatever key `memory.gradient_dtype` says.
  bool has_model_gradients = false;
  /// With units: whether gradients have the type that key `memory.gradient_dtype` says, else that
  /// of the stored shards.
  bool has_main_gradients = false;
  /// Whether the optimizer has master copies of parameters in 16 bits.
  bool has_master = true;
  bool reduces_every = false;  ///< whether every microbatch reduces, and key `sync` says no other
  UnitType reduce_dtype = UnitType::fp32;
  std::int64_t bucket = 0;
  std::int64_t reuse_distance = 0;
  bool overlap = true;

  // Buffers.

  /// Whether the bucket and the gradients of a rank are buffers of the whole job, else of each
  /// backward, and of the iteration.
  bool keeps_gradients = false;
  std::int64_t alignment = 1;  ///< the multiple of elements that a shard has

  // What it goes with.

  bool may_execute = false;            ///< whether the executor runs it
  bool may_offload_optimizer = false;  ///< whether the host may have optimizer state
  bool may_keep_low_weights = false;   ///< whether weights may be kept quantised alone
  /// Whether products are quantised by a library that keeps no quantised weights (LibraryTraits).
  bool may_cast_weights = false;
  std::string_view why_high = "";       ///< why other libraries quantise none; empty: they do
  std::string_view why_one_stage = "";  ///< why there is no pipeline; empty: there may be one

  /// Whether blocks are units, which reduce their own gradients.
  constexpr bool has_units() const { return shares >= SharedState::gradients; }
  /// Whether keys `bucket` and `overlap` are the kind's.
  constexpr bool has_buckets() const {
    return has_units() && framework == ShardingFramework::deepspeed;
  }
  /// The stage of ZeRO: how much of the state is shared out. Pre: DeepSpeed's, or none.
  constexpr int zero_stage() const { return static_cast<int>(shares); }
  /// Whether Megatron-LM's flags say it.
  constexpr bool is_in_megatron() const {
    return framework == ShardingFramework::any || framework == ShardingFramework::megatron;
  }
};

inline constexpr std::string_view units_are_high =
    "of kinds with units, fsdp2 goes with implementation: torchao";
inline constexpr std::string_view units_have_one_stage = "its stages are not modelled";
/// Source: deepspeed/runtime/pipe/engine.py.
inline constexpr std::string_view deepspeed_has_one_stage =
    "DeepSpeed's pipeline engine asserts that ZeRO-2 and ZeRO-3 are incompatible with pipelines";

/// Every kind, in the order of ShardingKind.
inline constexpr std::array all_sharding_kinds{
    ShardingTraits{.kind = ShardingKind::none,
                   .name = "none",
                   .short_name = "none",
                   .may_execute = true,
                   .may_cast_weights = true},
    ShardingTraits{.kind = ShardingKind::distributed_optimizer,
                   .name = "distributed_optimizer",
                   .short_name = "optimizer",
                   .framework = ShardingFramework::megatron,
                   .shares = SharedState::optimizer,
                   .may_execute = true,
                   .may_offload_optimizer = true,
                   .may_keep_low_weights = true},
    ShardingTraits{.kind = ShardingKind::fsdp1,
                   .name = "fsdp1",
                   .short_name = "fsdp1",
                   .framework = ShardingFramework::pytorch,
                   .shares = SharedState::parameters,
                   .has_root = true,
                   .is_flat = true,
                   .keeps_until_reduced = true,
                   .has_master = false,
                   .why_high = units_are_high,
                   .why_one_stage = units_have_one_stage},
    ShardingTraits{.kind = ShardingKind::fsdp2,
                   .name = "fsdp2",
                   .short_name = "fsdp2",
                   .framework = ShardingFramework::pytorch,
                   .shares = SharedState::parameters,
                   .has_master = false,
                   .may_execute = true,
                   .may_cast_weights = true,
                   .why_high = units_are_high,
                   .why_one_stage = units_have_one_stage},
    ShardingTraits{.kind = ShardingKind::zero1,
                   .name = "zero1",
                   .short_name = "zero1",
                   .framework = ShardingFramework::deepspeed,
                   .shares = SharedState::optimizer,
                   .has_model_gradients = true,
                   .alignment = 2,
                   .may_offload_optimizer = true},
    // The values of DeepSpeed's keys are those of deepspeed/runtime/zero/config.py.
    // deepspeed/runtime/zero/stage_1_and_2.py: each rank owns a range of all parameters, laid out
    // one after the other, padded to a multiple of twice the ranks. Every backward reduces, and
    // copies what it owns out of what all ranks get (average_tensor, with
    // use_multi_rank_bucket_allreduce).
    ShardingTraits{.kind = ShardingKind::zero2,
                   .name = "zero2",
                   .short_name = "zero2",
                   .framework = ShardingFramework::deepspeed,
                   .shares = SharedState::gradients,
                   .all_reduces = true,
                   .reduces_every = true,
                   .reduce_dtype = UnitType::automatic,
                   .bucket = 500'000'000,
                   .overlap = false,
                   .alignment = 2,
                   .why_high = units_are_high,
                   .why_one_stage = deepspeed_has_one_stage},
    // deepspeed/runtime/zero: partition_parameters.py cuts each parameter after padding it to a
    // multiple of the ranks, and copies it out of what was gathered; stage3.py reduces always, and
    // allocates its bucket and grad_partitions_flat_buffer at once.
    ShardingTraits{.kind = ShardingKind::zero3,
                   .name = "zero3",
                   .short_name = "zero3",
                   .framework = ShardingFramework::deepspeed,
                   .shares = SharedState::parameters,
                   .cuts_rows = true,
                   .reduces_every = true,
                   .reduce_dtype = UnitType::automatic,
                   .bucket = 500'000'000,
                   .reuse_distance = 1'000'000'000,
                   .keeps_gradients = true,
                   .why_high = units_are_high,
                   .why_one_stage = deepspeed_has_one_stage},
    // Megatron-LM d98e8a64, megatron/core/distributed/fsdp/src/megatron_fsdp:
    // param_and_grad_buffer.py lays the parameters of a unit out in one buffer, in whole rows of
    // all of them, and gradients in another, whose reduced shard is added to main gradients in
    // every microbatch; megatron_fsdp.py releases what layers have gathered, and nothing else.
    ShardingTraits{.kind = ShardingKind::megatron_fsdp,
                   .name = "megatron_fsdp",
                   .short_name = "mfsdp",
                   .framework = ShardingFramework::megatron,
                   .shares = SharedState::parameters,
                   .has_root = true,
                   .is_flat = true,
                   .joins_rows = true,
                   .fills_input = true,
                   .splits_experts = true,
                   .keeps_root = true,
                   .may_keep_gathered = false,
                   .has_main_gradients = true,
                   .reduces_every = true,
                   .reduce_dtype = UnitType::automatic,
                   .keeps_gradients = true,
                   .why_high = units_are_high,
                   .why_one_stage = units_have_one_stage},
};

constexpr ShardingTraits const& traits_of(ShardingKind kind) {
  return all_sharding_kinds[static_cast<std::size_t>(kind)];
}

/// The kind of Megatron-FSDP as a strategy of which parameters are whole.
constexpr ShardingTraits whole_megatron_fsdp(SharedState shares) {
  ShardingTraits traits = traits_of(ShardingKind::megatron_fsdp);
  traits.shares = shares;
  traits.has_root = false;
  traits.keeps_root = false;
  traits.keeps_gradients = traits.has_units();
  return traits;
}

/// By ShardingStrategy.
inline constexpr std::array megatron_fsdp_strategies{traits_of(ShardingKind::megatron_fsdp),
                                                     whole_megatron_fsdp(SharedState::gradients),
                                                     whole_megatron_fsdp(SharedState::optimizer)};

template <>
struct EnumNames<ShardingKind> {
  static constexpr auto all = names_in(all_sharding_kinds, &ShardingTraits::kind);
};

/// The names of the kinds for which `holds`, in one text: `none, distributed_optimizer`.
template <typename Condition>
std::string names_of_kinds(Condition holds) {
  std::string text;
  for (ShardingTraits const& row : all_sharding_kinds) {
    if (holds(row)) text += (text.empty() ? "" : ", ") + std::string{row.name};
  }
  return text;
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
  std::int64_t bucket = 0;          ///< elements; 0: each gradient has a buffer until it is reduced
  std::int64_t reuse_distance = 0;  ///< elements
  bool overlap = true;              ///< whether reductions run beside the backward
  ShardingStrategy strategy = ShardingStrategy::optim_grads_params;  ///< of Megatron-FSDP
  int generation = 1;                                                ///< of Megatron-FSDP

  constexpr ShardingTraits const& traits() const {
    return kind == ShardingKind::megatron_fsdp
               ? megatron_fsdp_strategies[static_cast<std::size_t>(strategy)]
               : traits_of(kind);
  }
  /// Whether the root's parameters stay gathered until the last backward of an iteration: Megatron-
  /// FSDP's second generation frees them after each.
  constexpr bool keeps_root() const { return traits().keeps_root && generation == 1; }
  /// Whether each rank keeps only the optimizer state of its own shard of the parameters.
  constexpr bool shares_optimizer() const { return traits().shares >= SharedState::optimizer; }
  /// Whether each rank keeps only its shard of gradients, too, which units reduce.
  constexpr bool has_units() const { return traits().has_units(); }
  /// Whether each rank keeps only its shard of parameters as well.
  constexpr bool shares_parameters() const { return traits().shares == SharedState::parameters; }
  friend constexpr auto operator<=>(Sharding const&, Sharding const&) = default;
};

/// A kind's own values of the keys.
constexpr Sharding default_sharding(ShardingKind kind) {
  ShardingTraits const& traits = traits_of(kind);
  return {.kind = kind,
          .sync = traits.reduces_every ? UnitSync::every : UnitSync::last,
          .reduce_dtype = traits.reduce_dtype,
          .bucket = traits.bucket,
          .reuse_distance = traits.reuse_distance,
          .overlap = traits.overlap};
}

/// The sharding of a run as another kind: the run's values of the keys that both kinds have, and
/// the kind's own values of the others.
constexpr Sharding as_kind(Sharding const& run, ShardingKind kind) {
  Sharding changed = default_sharding(kind);
  ShardingTraits const& was = run.traits();
  ShardingTraits const& is = changed.traits();
  if (!was.has_units() || !is.has_units()) return changed;
  if (!was.reduces_every && !is.reduces_every) changed.sync = run.sync;
  changed.reduce_dtype = run.reduce_dtype;
  if (was.has_buckets() && is.has_buckets()) {
    changed.bucket = run.bucket;
    changed.overlap = run.overlap;
  }
  if (!run.shares_parameters() || !changed.shares_parameters()) return changed;
  changed.group = run.group;
  if (is.may_keep_gathered) changed.reshard_after_forward = run.reshard_after_forward;
  changed.reshard_after_backward = run.reshard_after_backward;
  changed.prefetch = run.prefetch;
  changed.stored_dtype = run.stored_dtype;
  if (run.parameter_dtype != UnitType::low || is.may_cast_weights) {
    changed.parameter_dtype = run.parameter_dtype;
  }
  return changed;
}

/// The sharding for which `memory.distributed_optimizer` is the short form.
constexpr Sharding sharding_of(bool distributed_optimizer) {
  return {.kind = distributed_optimizer ? ShardingKind::distributed_optimizer : ShardingKind::none};
}

/// When units gather, free and reduce. Pre: the sharding has units.
constexpr UnitPolicy unit_policy(Sharding const& sharding) {
  using After = UnitPolicy::AfterForward;
  Reshard const& reshard = sharding.reshard_after_forward;
  bool const keeps_between = sharding.traits().keeps_until_reduced &&
                             reshard.kind == Reshard::Kind::no && sharding.sync == UnitSync::last;
  return {.after_forward = reshard.kind == Reshard::Kind::automatic ? After::free_most
                           : reshard.kind == Reshard::Kind::no      ? After::keep
                                                                    : After::free,
          .kept_among = reshard.ranks,
          .frees_after_backward = sharding.reshard_after_backward && !keeps_between,
          .keeps_root = sharding.keeps_root(),
          .prefetch = sharding.prefetch.units,
          .reduces_every = sharding.sync == UnitSync::every};
}

}  // namespace stagecraft
