#include "libsim/launch/deepspeed_files.hpp"

#include <nlohmann/json.hpp>
#include <string_view>

#include "libsim/launch/trainer_files.hpp"
#include "libsim/model/model_names.hpp"
#include "libsim/training/training_names.hpp"

namespace stagecraft {
namespace {

using Json = nlohmann::ordered_json;

/// Keys of deepspeed/runtime/zero/config.py. Those whose defaults are what was predicted are left
/// out.
Json zero_optimization(TrainingConfig const& config) {
  Sharding const& sharding = config.sharding;
  int const stage = sharding.traits().zero_stage();
  Json zero{{"stage", stage}};
  if (stage >= 2) {
    zero["contiguous_gradients"] = sharding.bucket > 0;
    zero["overlap_comm"] = sharding.overlap;
    if (sharding.bucket > 0) zero["reduce_bucket_size"] = sharding.bucket;
  }
  if (stage == 3) {
    // Every parameter is shared out and gathered, as it was predicted.
    zero["stage3_param_persistence_threshold"] = 0;
    zero["stage3_max_reuse_distance"] = sharding.reuse_distance;
  }
  if (config.offload.optimizer > 0) {
    zero["offload_optimizer"] = {{"device", "cpu"}, {"pin_memory", true}};
  }
  return zero;
}

std::string deepspeed_json(TrainingConfig const& config) {
  Hyperparameters const& numbers = config.training;
  Json file{{"train_batch_size", config.batch.global},
            {"train_micro_batch_size_per_gpu", config.batch.micro},
            {"gradient_accumulation_steps", microbatches(config)},
            {name_of(config.model.precision), {{"enabled", true}}},
            {"gradient_clipping", numbers.clip},
            {"optimizer",
             {{"type", "AdamW"},
              {"params",
               {{"lr", numbers.learning_rate},
                {"betas", {numbers.beta1, numbers.beta2}},
                {"eps", numbers.epsilon},
                {"weight_decay", numbers.weight_decay}}}}},
            {"zero_optimization", zero_optimization(config)}};
  UnitType const reduced = config.sharding.reduce_dtype;
  if (config.sharding.has_units() && reduced != UnitType::automatic) {
    file["communication_data_type"] = name_of(reduced);
  }
  return file.dump(2) + "\n";
}

/// A file for `accelerate launch --config_file`.
std::string accelerate_yaml(LaunchJob const& job) {
  JobNodes const nodes = nodes_of(job);
  return commented(job.about) +
         "compute_environment: LOCAL_MACHINE\n"
         "distributed_type: DEEPSPEED\n"
         "num_machines: " +
         std::to_string(nodes.nodes) +
         "\n"
         "num_processes: " +
         std::to_string(nodes.nodes * nodes.per_node) +
         "\n"
         "deepspeed_config:\n"
         "  deepspeed_config_file: deepspeed.json\n"
         "  zero3_init_flag: " +
         (job.config.sharding.shares_parameters() ? "true\n" : "false\n");
}

}  // namespace

std::vector<LaunchFile> deepspeed_files(LaunchJob const& job) {
  return {
      {"accelerate.sh", accelerate_script(job),
       "starts the job with Accelerate; run it on every node"},
      {"accelerate.yaml", accelerate_yaml(job), "the configuration of Accelerate"},
      {"deepspeed.json", deepspeed_json(job.config), "the configuration of DeepSpeed"},
      {"train.py", train_py(job, true), "a training program, with the Trainer of transformers"}};
}

std::string deepspeed_layout_flags(TrainingConfig const& config) {
  return "--use_deepspeed --zero_stage " + std::to_string(config.sharding.traits().zero_stage()) +
         " --gradient_accumulation_steps " + std::to_string(microbatches(config)) +
         " --mixed_precision " + std::string{name_of(config.model.precision)} +
         (config.offload.optimizer > 0 ? " --offload_optimizer_device cpu" : "");
}

}  // namespace stagecraft
