#include "libsim/launch/deepspeed_gaps.hpp"

#include "libsim/launch/llama_gaps.hpp"
#include "libsim/launch/trainer_files.hpp"

namespace stagecraft {

std::vector<std::string> deepspeed_gaps(TrainingConfig const& config) {
  std::vector<std::string> gaps = deepspeed_gaps_of_model(config);
  auto const gap = [&](bool is_there, std::string const& text) {
    if (is_there) gaps.push_back(text);
  };
  ParallelLayout const& layout = config.parallel;
  gap(layout.tensor > 1 || layout.context > 1 || layout.pipeline > 1,
      "parallel.tensor, context, pipeline: not written for DeepSpeed");
  for (std::string const& text : trainer_gaps(config)) gaps.push_back(text);
  Sharding const& sharding = config.sharding;
  auto const is_of_deepspeed = [](ShardingTraits const& row) {
    return row.framework == ShardingFramework::deepspeed;
  };
  gap(!is_of_deepspeed(sharding.traits()) && sharding.kind != ShardingKind::none,
      "sharding: DeepSpeed's are " + names_of_kinds(is_of_deepspeed));
  // deepspeed/runtime/zero/mics.py asserts that the model was made in MiCS_Init; transformers makes
  // it in zero.Init.
  gap(sharding.group != 0, "sharding.group: the Trainer cannot start DeepSpeed's groups (MiCS)");
  bool const is_usual = sharding.reshard_after_forward == Reshard{} &&
                        sharding.reshard_after_backward && sharding.prefetch == Prefetch{} &&
                        sharding.stored_dtype == UnitType::automatic &&
                        sharding.parameter_dtype == UnitType::automatic;
  gap(sharding.has_units() && !is_usual,
      "sharding: DeepSpeed's units free their parameters after each pass, prefetch by elements, "
      "and have the model's type");
  Offload const& offload = config.offload;
  gap((offload.optimizer > 0 && offload.optimizer < 1) || offload.overlap || offload.keeps_master,
      "offload: written for all of the optimizer's state, without overlap");
  return gaps;
}

std::vector<std::string> deepspeed_gaps_of_model(TrainingConfig const& config) {
  return llama_gaps(
      config.model,
      {.owner = "transformers", .may_tie = true, .has_head_dim = true, .has_half = true});
}

}  // namespace stagecraft
