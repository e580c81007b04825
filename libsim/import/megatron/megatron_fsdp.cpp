#include "libsim/import/megatron/megatron_fsdp.hpp"

#include <string>
#include <string_view>

#include "libsim/training/training_names.hpp"

namespace stagecraft {
namespace {

constexpr std::string_view accepted_types = "fp32, bf16, fp16, auto";

/// The type that a flag says; `automatic` if it is left out.
UnitType type_of(MegatronArguments& arguments, std::string_view flag) {
  std::string const text = arguments.text(flag).value_or("auto");
  for (auto const& [type, name] : EnumNames<UnitType>::all) {
    if (text == name) return type;
  }
  arguments.report(flag, std::string{accepted_types});
  return UnitType::automatic;
}

/// What the strategy's flag says; none of `no_shard`.
Sharding asked_sharding(MegatronArguments& arguments) {
  constexpr std::string_view flag = "data-parallel-sharding-strategy";
  std::string const strategy = arguments.text(flag).value_or("optim_grads_params");
  Sharding sharding = default_sharding(ShardingKind::megatron_fsdp);
  for (auto const& [value, name] : EnumNames<ShardingStrategy>::all) {
    if (strategy != name) continue;
    sharding.strategy = value;
    return sharding;
  }
  if (strategy == "no_shard") return {};
  arguments.report(flag, "no_shard, " + accepted_names<ShardingStrategy>());
  return sharding;
}

/// Whether the run is modelled with such a sharding.
bool is_known(MegatronArguments& arguments, TrainingConfig const& config, Sharding const& asked) {
  if (!asked.shares_optimizer()) return true;
  bool const is_high = !arguments.has("fp8-format") && !arguments.has("fp4-format");
  if (is_high && (config.parallel.pipeline == 1 || !asked.has_units())) return true;
  if (asked.has_units()) {
    arguments.refuse("use-megatron-fsdp", "runs of one stage in 16 bits",
                     {"parameters on every replica", "less memory, more time"});
  } else {
    arguments.refuse("use-megatron-fsdp", "runs in 16 bits",
                     {"the optimizer's state as without it", "less memory"});
  }
  return false;
}

/// Whether the optimizer has master copies of 32 bits, as it has here.
bool has_wide_master(MegatronArguments& arguments) {
  return arguments.text("megatron-fsdp-main-params-dtype").value_or("fp32") == "fp32";
}

}  // namespace

void read_megatron_fsdp(MegatronArguments& arguments, TrainingConfig& config) {
  if (!arguments.has("use-megatron-fsdp")) return;
  Sharding& sharding = config.sharding;
  Sharding const asked = asked_sharding(arguments);
  if (is_known(arguments, config, asked)) sharding = asked;
  auto const generation = arguments.integer("megatron-fsdp-version", {1, 2});
  if (sharding.has_units()) sharding.generation = static_cast<int>(generation.value_or(1));
  if (!has_wide_master(arguments)) {
    arguments.refuse("megatron-fsdp-main-params-dtype", "fp32",
                     {"master copies in 32 bits", "less memory"});
  }
  UnitType const kept = type_of(arguments, "megatron-fsdp-main-grads-dtype");
  Precision const precision = config.model.precision;
  bool const is_half = precision == Precision::bf16 || precision == Precision::fp16;
  bool const is_wide = kept == UnitType::fp32 || !is_half;
  StateType const narrow = precision == Precision::fp16 ? StateType::fp16 : StateType::bf16;
  config.memory.gradient_dtype = is_wide ? StateType::fp32 : narrow;
  UnitType const moved = type_of(arguments, "megatron-fsdp-grad-comm-dtype");
  bool const is_same = name_of(moved) == name_of(config.memory.gradient_dtype);
  if (!sharding.has_units()) {
    if (is_same || moved == UnitType::automatic) return;
    arguments.refuse("megatron-fsdp-grad-comm-dtype", "auto, or the type of main gradients",
                     {"reductions in the type of main gradients",
                      moved == UnitType::fp32 ? "more time" : "less time"});
    return;
  }
  if (!is_same) sharding.reduce_dtype = moved;
  config.parallel.overlap_gradients.reset();  // units reduce their own
  if (!config.parallel.expert_overlap) return;
  arguments.refuse("overlap-moe-expert-parallel-comm", "a run without it, as units have no pairs",
                   {"exchanges of experts in their own pass", "less time"});
  config.parallel.expert_overlap = false;
}

}  // namespace stagecraft
