#include "libsim/training/sharding/sharding_checks.hpp"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "libsim/model/model_names.hpp"
#include "libsim/program/low_library.hpp"
#include "libsim/training/combination_check.hpp"
#include "libsim/training/training_names.hpp"

namespace stagecraft {
namespace {

class ShardingCheck : CombinationCheck {
 public:
  using CombinationCheck::CombinationCheck;

  void check() const {
    if (!config_.sharding.has_units() ||
        !sound({"parallel", "model", "recompute", "schedule", "sharding"})) {
      return;
    }
    check_layout();
    check_model();
    check_types();
    if (!config_.sharding.shares_parameters()) return check_gathers();
    check_policy();
  }

 private:
  std::string why() const {
    return ", as sharding is " + std::string{name_of(config_.sharding.kind)};
  }

  int replicas() const { return config_.parallel.data * config_.parallel.context; }

  void check_layout() const {
    ParallelLayout const& layout = config_.parallel;
    std::string const why_one_stage{config_.sharding.traits().why_one_stage};
    if (layout.pipeline > 1 && !why_one_stage.empty()) {
      refuse("parallel.pipeline", layout.pipeline, "1" + why() + ": " + why_one_stage);
    }
    check_generation(layout);
    if (layout.expert > 1 && !config_.sharding.traits().splits_experts) {
      refuse("parallel.expert", layout.expert,
             "1" + why() + ": units of experts with ranks of their own are not modelled");
    } else if (layout.expert > 1 && config_.sharding.group != 0) {
      refuse("sharding.group", config_.sharding.group,
             "0, as parallel.expert is " + to_text(layout.expert) +
                 ": groups of ranks that share the units of experts are not modelled");
    }
    if (layout.overlap_gradients.value_or(false)) {
      refuse("parallel.overlap_gradients", "true", "false" + why() + ": units reduce their own");
    }
    for (RecomputePolicy const& policy : config_.recompute) {
      bool const joins_layers = policy.granularity == RecomputeGranularity::full &&
                                policy.method == RecomputeMethod::uniform && policy.layers > 1;
      if (!joins_layers) continue;
      refuse("recompute.layers", policy.layers, "1" + why() + ": each layer is a unit");
      break;
    }
    bool const is_1f1b = config_.schedule.kind == ScheduleKind::one_f_one_b;
    if (layout.pipeline == 1 && (!is_1f1b || recomputes_early(config_))) {
      refuse("schedule", name_of(config_.schedule.kind), "1f1b" + why());
    }
  }

  /// Source: Megatron-LM, megatron/core/distributed/fsdp/mcore_fsdp_adapter.py,
  /// FullyShardedDataParallelV2._validate_config.
  void check_generation(ParallelLayout const& layout) const {
    if (config_.sharding.generation != 2) return;
    std::string const why_not = ", as sharding.generation is 2";
    if (layout.tensor > 1) refuse("parallel.tensor", layout.tensor, "1" + why_not);
    if (layout.context > 1) refuse("parallel.context", layout.context, "1" + why_not);
    if (!config_.sharding.shares_parameters()) {
      refuse("sharding.strategy", name_of(config_.sharding.strategy),
             "optim_grads_params" + why_not);
    }
  }

  void check_model() const {
    bool const frees_all = config_.sharding.reshard_after_forward.kind == Reshard::Kind::yes;
    bool const is_one_unit = config_.model.tied_embeddings || config_.sharding.traits().has_root;
    if (is_one_unit && frees_all) {
      refuse("sharding.reshard_after_forward", "true",
             "auto or false, as embedding and head are one unit, which keeps its parameters");
    }
    if (config_.model.predicted_tokens > 0) {
      refuse("model.predicted_tokens", config_.model.predicted_tokens,
             "0" + why() + ": a unit has all uses of a parameter");
    }
  }

  void check_types() const {
    ShardingTraits const& kind = config_.sharding.traits();
    if (config_.memory.gradient_dtype != StateType::fp32 && !kind.has_main_gradients) {
      refuse("memory.gradient_dtype", name_of(config_.memory.gradient_dtype),
             "fp32" + why() + ": gradients have the type of sharding.stored_dtype");
    }
    if (config_.memory.moments_dtype != StateType::fp32) {
      refuse("memory.moments_dtype", name_of(config_.memory.moments_dtype),
             "fp32" + why() + ": moments have the type of sharding.stored_dtype");
    }
    if (config_.sharding.stored_dtype != UnitType::automatic && kind.has_main_gradients) {
      refuse("sharding.stored_dtype", name_of(config_.sharding.stored_dtype),
             "auto" + why() +
                 ", whose shards have the type of model.precision, and master copies 32 bits");
    }
    UnitType const gathered = config_.sharding.parameter_dtype;
    std::string_view const precision = name_of(config_.model.precision);
    bool const is_other = gathered != UnitType::automatic && gathered != UnitType::low;
    if (is_other && name_of(gathered) != precision) {
      refuse("sharding.parameter_dtype", name_of(gathered),
             "auto, or as model.precision (" + std::string{precision} + ")");
    }
    for (auto const& [key, type] :
         {std::pair{"sharding.stored_dtype", config_.sharding.stored_dtype},
          std::pair{"sharding.reduce_dtype", config_.sharding.reduce_dtype}}) {
      if (type == UnitType::low) refuse(key, name_of(type), "auto, fp32, bf16, fp16");
    }
    if (gathered == UnitType::low && sound({"low_precision"})) check_low_gathers();
  }

  /// Source: torchao, float8/config.py, "enable_fsdp_float8_all_gather only supports tensorwise".
  void check_low_gathers() const {
    LowPrecision const& low = config_.low_precision;
    bool const casts =
        traits_of(low.implementation).casts_weights && config_.sharding.traits().may_cast_weights;
    if (casts && low.recipe == Recipe::current) return;
    refuse("sharding.parameter_dtype", "low",
           casts && low.recipe != Recipe::none
               ? "auto, as low_precision is " + std::string{name_of(low.recipe)} +
                     "; weights with one scale are gathered in 8 bits"
               : "auto, or fsdp2 with `low_precision: {recipe: current, implementation: torchao}`");
  }

  /// Kinds whose parameters are whole have no use for the keys of gathers.
  void check_gathers() const {
    Sharding whole = config_.sharding;
    whole.sync = default_sharding(whole.kind).sync;
    whole.reduce_dtype = default_sharding(whole.kind).reduce_dtype;
    whole.bucket = default_sharding(whole.kind).bucket;
    whole.overlap = default_sharding(whole.kind).overlap;
    whole.strategy = default_sharding(whole.kind).strategy;
    whole.generation = default_sharding(whole.kind).generation;
    if (whole == default_sharding(whole.kind)) return;
    bool const has_strategy = whole.kind == ShardingKind::megatron_fsdp;
    std::string const keys = has_strategy
                                 ? "kind, strategy, reduce_dtype" + why() + " with strategy " +
                                       std::string{name_of(config_.sharding.strategy)}
                                 : "kind, sync, reduce_dtype, bucket, overlap" + why();
    refuse("sharding", name_of(whole.kind), "keys " + keys + ": each rank has all parameters");
  }

  void check_policy() const {
    Sharding const& sharding = config_.sharding;
    if (sharding.group != 0 && replicas() % sharding.group != 0) {
      refuse("sharding.group", sharding.group,
             "0, or a divisor of parallel.data x parallel.context (" + to_text(replicas()) + ")");
    } else if (sharding.group % config_.parallel.context != 0) {
      refuse("sharding.group", sharding.group,
             "0, or a multiple of parallel.context (" + to_text(config_.parallel.context) + ")");
    } else if (sharding.group == 1) {
      refuse("sharding.group", 1, "0, or at least 2 ranks");
    }
    if (int const ranks = sharding.reshard_after_forward.ranks; ranks != 0) {
      refuse("sharding.reshard_after_forward", ranks,
             "auto, true or false: a second group of ranks is not modelled");
    }
    bool const keeps = sharding.reshard_after_forward.kind == Reshard::Kind::no;
    if (keeps && !sharding.traits().may_keep_gathered) {
      refuse("sharding.reshard_after_forward", "false",
             "auto" + why() + ", whose layers free their parameters after forward");
    }
    if (sharding.prefetch.units != 0) {
      refuse("sharding.prefetch", sharding.prefetch.units,
             "implicit: explicit prefetching is not modelled");
    }
  }
};

/// What Megatron-LM's hybrid optimizer and Transformer Engine take, and this program as well.
class OffloadCheck : CombinationCheck {
 public:
  using CombinationCheck::CombinationCheck;

  void check() const {
    if (config_.offload == Offload{} ||
        !sound({"offload", "sharding", "parallel", "schedule", "recompute", "model", "memory"})) {
      return;
    }
    if (config_.offload.activations != ActivationOffload{}) check_activations();
    if (config_.offload.optimizer > 0) return check_optimizer();
    Offload without = config_.offload;
    without.activations = {};
    if (without != Offload{} || config_.offload.activations == ActivationOffload{}) {
      refuse("offload.optimizer", "0", "a fraction above 0, or `offload: none`");
    }
  }

 private:
  void check_optimizer() const {
    std::string const why = ", as offload.optimizer is set";
    if (!config_.sharding.traits().may_offload_optimizer) {
      refuse("sharding", name_of(config_.sharding.kind),
             names_of_kinds([](auto const& kind) { return kind.may_offload_optimizer; }) + why);
    }
    if (config_.model.precision != Precision::bf16) {
      refuse("model.precision", name_of(config_.model.precision), "bf16" + why);
    }
    if (config_.memory.moments_dtype != StateType::fp32) {
      refuse("memory.moments_dtype", name_of(config_.memory.moments_dtype),
             "fp32" + why + ": the host updates in 32 bits");
    }
  }

  static constexpr std::string_view as_offloaded = ", as offload.activations is set";

  /// Source: Megatron-LM, megatron/core/transformer/transformer_config.py, __post_init__.
  void check_activations() const {
    ActivationOffload const& offload = config_.offload.activations;
    if (offload.layers > 0 && !offload.modules.empty()) {
      refuse("offload.activations.modules", "a list",
             "layers or modules, of which Megatron-LM offloads either");
    } else if (offload.layers > 0) {
      check_layers();
    } else {
      check_modules();
    }
    if (has_experts(config_.model) && config_.routing.is_bounded()) {
      refuse("routing", config_.routing.is_natural ? "natural" : "capacity",
             "balanced, a factor or counts" + std::string{as_offloaded} +
                 ": nobody knows how many rows are copied");
    }
    if (!config_.sharding.traits().is_in_megatron()) {
      refuse("sharding", name_of(config_.sharding.kind),
             names_of_kinds([](auto const& kind) { return kind.is_in_megatron(); }) +
                 std::string{as_offloaded} + ": activations are offloaded as Megatron-LM does");
    }
  }

  /// Transformer Engine counts layers from each forward on.
  void check_layers() const {
    std::string const why{as_offloaded};
    int const layers = config_.offload.activations.layers;
    if (layers >= config_.model.layers) {
      refuse("offload.activations.layers", layers,
             "less than model.layers (" + to_text(config_.model.layers) +
                 "): the last layer's backward comes at once");
    }
    if (config_.parallel.pipeline > 1) {
      refuse("parallel.pipeline", config_.parallel.pipeline,
             "1" + why + ": Megatron-LM offloads layers of runs of one stage, and modules of all");
    }
    if (config_.schedule.kind != ScheduleKind::one_f_one_b) {
      refuse("schedule", name_of(config_.schedule.kind), "1f1b" + why);
    }
    if (config_.parallel.expert_overlap) {
      refuse("parallel.expert_overlap", "true",
             "false" + why + ": pairs of passes have no order of layers");
    }
    for (RecomputePolicy const& policy : config_.recompute) {
      if (policy.granularity == RecomputeGranularity::none) continue;
      refuse("recompute", name_of(policy.granularity),
             "none" + why + ": Megatron-LM offloads layers without recompute, and modules with it");
      break;
    }
  }

  void check_modules() const {
    std::string const why{as_offloaded};
    OffloadModules const modules = config_.offload.activations.modules;
    if (modules.empty()) {
      refuse("offload.activations.fraction", "a number",
             "modules beside it, of which it is a part");
      return;
    }
    if (modules.has(OffloadModule::attn_proj) && !modules.has(OffloadModule::core_attn)) {
      refuse("offload.activations.modules", "a list",
             "core_attn beside attn_proj, as the backward of core_attn reads what attn_proj reads");
    }
    // Exchanges beside another microbatch make an order of Megatron-LM's schedule.
    bool const is_megatrons = config_.schedule.kind == ScheduleKind::one_f_one_b ||
                              config_.schedule.kind == ScheduleKind::interleaved ||
                              config_.parallel.expert_overlap;
    if (!is_megatrons)
      refuse("schedule", name_of(config_.schedule.kind), "1f1b, interleaved" + why);
    // experts.py: other recipes keep the input of the first linear layer in 16 bits.
    Recipe const recipe = config_.low_precision.recipe;
    bool const keeps_low =
        recipe == Recipe::none || recipe == Recipe::mxfp8 || recipe == Recipe::nvfp4;
    if (modules.has(OffloadModule::expert_fc1) && !keeps_low) {
      refuse("low_precision", name_of(recipe), "none, mxfp8, nvfp4, as expert_fc1 is offloaded");
    }
    bool const has_inner =
        modules.has(OffloadModule::expert_fc1) || modules.has(OffloadModule::moe_act);
    for (RecomputePolicy const& policy : config_.recompute) {
      bool const is_selective = policy.granularity == RecomputeGranularity::selective;
      bool const has_moe =
          is_selective && std::ranges::find(policy.modules, "moe") != policy.modules.end();
      if (policy.granularity == RecomputeGranularity::full) {
        refuse("recompute", "full", "none, selective" + why + ": layers that run again keep none");
      } else if (has_moe && has_inner) {
        refuse("recompute.modules", "moe", "others, as modules of experts are offloaded");
      } else if (policy.early != EarlyRecompute::no) {
        refuse("recompute.early", name_of(policy.early), "no" + why);
      } else {
        continue;
      }
      break;
    }
  }
};

}  // namespace

void check_offload(TrainingConfig const& config, ConfigNode const& root) {
  OffloadCheck{config, root}.check();
}

void check_sharding(TrainingConfig const& config, ConfigNode const& root) {
  ShardingCheck{config, root}.check();
}

}  // namespace stagecraft
