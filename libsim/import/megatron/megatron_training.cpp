#include "libsim/import/megatron/megatron_training.hpp"

#include <algorithm>

#include "libsim/import/megatron/megatron_keys.hpp"
#include "libsim/model/recompute_regions.hpp"
#include "libsim/training/training_keys.hpp"

namespace stagecraft {
namespace {

/// Reads full recompute, spelt --checkpoint-activations (2020), --activations-checkpoint-* (2021,
/// 2022) or --recompute-* (since then).
void read_full(MegatronArguments& arguments, bool is_old, RecomputePolicy& policy) {
  policy.granularity = RecomputeGranularity::full;
  std::string_view const method_flag =
      is_old ? "activations-checkpoint-method" : "recompute-method";
  std::string_view const layers_flag = arguments.has("checkpoint-num-layers")
                                           ? "checkpoint-num-layers"
                                       : is_old ? "activations-checkpoint-num-layers"
                                                : "recompute-num-layers";
  std::string const method = arguments.text(method_flag).value_or(is_old ? "uniform" : "");
  if (method == "block") {
    policy.method = RecomputeMethod::block;
  } else if (method != "uniform") {
    arguments.report(method_flag, "uniform, block");
  }
  // A block may have no layer to recompute (transformer_block.py, _checkpointed_forward).
  bool const is_block = policy.method == RecomputeMethod::block;
  auto const layers = arguments.integer(layers_flag, {is_block ? 0 : 1, 100'000});
  if (layers == 0) {
    policy = {};
    return;
  }
  if (!layers && !is_old && !arguments.has(layers_flag)) {
    arguments.note(
        "--recompute-num-layers left out: 1, as Megatron-LM of 2022 and its descendants "
        "take");
  }
  policy.layers = static_cast<int>(layers.value_or(1));
  policy.sharded_checkpoints = arguments.has("distribute-saved-activations");
}

void read_selective(MegatronArguments& arguments,
                    bool has_experts,
                    bool is_mlp_alone,
                    RecomputePolicy& policy) {
  policy.granularity = RecomputeGranularity::selective;
  if (arguments.has("recompute-method")) {
    arguments.report("recompute-method", "no method, as --recompute-granularity is selective");
  }
  std::vector<std::string> names = arguments.texts("recompute-modules");
  if (is_mlp_alone) names = {"mlp"};
  // transformer_config.py: it joins the modules that are there, core_attn by default.
  if (arguments.has("moe-layer-recompute") && has_experts) {
    if (names.empty()) names = {"core_attn"};
    if (std::ranges::find(names, "moe") == names.end()) names.emplace_back("moe");
  }
  if (names.empty()) return;
  policy.modules.clear();
  for (std::string const& name : names) {
    auto const regions = recompute_regions();
    auto const region = std::find_if(
        regions.begin(), regions.end(),
        [&](RecomputeRegion const& candidate) { return candidate.megatron_name == name; });
    if (region == regions.end()) {
      arguments.refuse("recompute-modules", region_names(&RecomputeRegion::megatron_name),
                       {"the recompute of the others", "less memory, more time"});
    } else {
      policy.modules.emplace_back(region->name);
    }
  }
  sort_regions(policy.modules);
  if (policy.modules.empty()) policy.granularity = RecomputeGranularity::none;
}

}  // namespace

std::vector<RecomputePolicy> read_megatron_recompute(MegatronArguments& arguments,
                                                     ModelConfig const& model) {
  RecomputePolicy policy;
  std::string_view const old_flag = "activations-checkpoint-granularity";
  std::string_view const flag = arguments.has(old_flag) ? old_flag : "recompute-granularity";
  std::string granularity = arguments.text(flag).value_or("");
  bool const is_old = flag == old_flag || arguments.has("checkpoint-activations") ||
                      arguments.has("activations-checkpoint-method");
  if (granularity.empty() && is_old) granularity = "full";
  if (granularity.empty() && arguments.has("recompute-activations")) granularity = "selective";
  bool const has_experts = model.experts.has_value();
  if (granularity.empty() && arguments.has("moe-layer-recompute") && has_experts) {
    granularity = "selective";
  }
  if (granularity == "full") {
    read_full(arguments, is_old, policy);
  } else if (granularity == "selective" || granularity == "mlp") {
    // HabanaAI/Megatron-DeepSpeed has the second.
    read_selective(arguments, has_experts, granularity == "mlp", policy);
  } else if (!granularity.empty()) {
    arguments.report(flag, "full, selective");
  } else if (arguments.has("recompute-method")) {
    arguments.note("--recompute-method without --recompute-granularity: nothing is recomputed");
  }
  return {policy};
}

ActivationOffload read_megatron_offload(MegatronArguments& arguments) {
  ActivationOffload offload;
  offload.layers = static_cast<int>(
      arguments.integer("cpu-offloading-num-layers", {0, most_layers}).value_or(0));
  if (!arguments.has("fine-grained-activation-offloading")) return offload;
  for (std::string const& name : arguments.texts("offload-modules")) {
    if (auto const module = value_named<OffloadModule>(name)) {
      offload.modules.insert(*module);
    } else {
      arguments.refuse("offload-modules", accepted_names<OffloadModule>(),
                       {"the others on the host", "less memory, more time"});
    }
  }
  if (offload.modules.empty()) return offload;
  NumberRange const part{.lower = 0, .upper = 1, .includes_upper = true};
  offload.fraction = arguments.number("activation-offload-fraction", part).value_or(1);
  return offload;
}

Hyperparameters read_megatron_training(MegatronArguments& arguments) {
  Hyperparameters training;
  FlagReader reader{arguments};
  visit_keys(reader, training);
  if (!arguments.has("lr")) arguments.note("--lr left out: training.learning_rate 1.5e-4");
  if (arguments.has("loss-scale")) {
    training.loss_scale = arguments.number("loss-scale", {1, 0x1p40}).value_or(training.loss_scale);
    arguments.note(
        "--loss-scale is static in Megatron-LM; here it is the first of a scale that "
        "halves at an overflow");
  }
  std::string const optimizer = arguments.text("optimizer").value_or("adam");
  if (optimizer != "adam") {
    bool const is_sgd = optimizer == "sgd";
    arguments.refuse("optimizer", "adam", {"Adam", is_sgd ? "less time and memory" : "either way"});
  }
  return training;
}

}  // namespace stagecraft
