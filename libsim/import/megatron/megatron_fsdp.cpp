#include "libsim/import/megatron/megatron_fsdp.hpp"

#include <optional>
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

/// Whether units of the run are modelled.
bool has_known_units(MegatronArguments& arguments, TrainingConfig const& config) {
  bool const is_high = !arguments.has("fp8-format") && !arguments.has("fp4-format");
  if (config.parallel.pipeline == 1 && is_high) return true;
  arguments.refuse("use-megatron-fsdp", "runs of one stage in 16 bits",
                   {"parameters on every replica", "less memory, more time"});
  return false;
}

/// Whether the optimizer has master copies of 32 bits, as it has here.
bool has_wide_master(MegatronArguments& arguments) {
  return arguments.text("megatron-fsdp-main-params-dtype").value_or("fp32") == "fp32";
}

}  // namespace

void read_megatron_fsdp(MegatronArguments& arguments, TrainingConfig& config) {
  constexpr std::string_view flag = "data-parallel-sharding-strategy";
  if (!arguments.has("use-megatron-fsdp") || !has_known_units(arguments, config)) return;
  Sharding& sharding = config.sharding;
  std::string const strategy = arguments.text(flag).value_or("optim_grads_params");
  sharding = default_sharding(ShardingKind::megatron_fsdp);
  std::optional<ShardingStrategy> known;
  for (auto const& [value, name] : EnumNames<ShardingStrategy>::all) {
    if (strategy == name) known = value;
  }
  if (known) {
    sharding.strategy = *known;
  } else if (strategy == "no_shard") {
    sharding = {};
  } else {
    arguments.report(flag, "no_shard, " + accepted_names<ShardingStrategy>());
  }
  sharding.generation =
      static_cast<int>(arguments.integer("megatron-fsdp-version", {1, 2}).value_or(1));
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
  if (sharding.has_units() && !is_same) sharding.reduce_dtype = moved;
  if (!sharding.has_units()) return;
  config.parallel.overlap_gradients.reset();  // units reduce their own
  if (!config.parallel.expert_overlap) return;
  arguments.refuse("overlap-moe-expert-parallel-comm", "a run without it, as units have no pairs",
                   {"exchanges of experts in their own pass", "less time"});
  config.parallel.expert_overlap = false;
}

}  // namespace stagecraft
