#include "libsim/launch/deepspeed_files.hpp"

#include <nlohmann/json.hpp>
#include <string_view>

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

std::string accelerate_script(LaunchJob const& job) {
  JobNodes const nodes = nodes_of(job);
  return "#!/bin/bash\n" + commented(job.about) + "#\n# Run it on every node" +
         (nodes.nodes == 1 ? ":\n#   bash accelerate.sh\n"
                           : ", with NODE_RANK from 0 to " + std::to_string(nodes.nodes - 1) +
                                 ":\n#   MASTER_ADDR=first-node NODE_RANK=0 bash accelerate.sh\n") +
         "set -euo pipefail\n"
         "cd \"$(dirname \"$0\")\"\n" +
         allocator_line(job.config.memory) +
         "accelerate launch --config_file accelerate.yaml --machine_rank \"${NODE_RANK:-0}\" \\\n"
         "  --main_process_ip \"${MASTER_ADDR:-localhost}\" --main_process_port "
         "\"${MASTER_PORT:-29500}\" \\\n"
         "  train.py\n";
}

std::string python(bool value) { return value ? "True" : "False"; }
std::string python(double value) { return Json(value).dump(); }
std::string python(std::int64_t value) { return std::to_string(value); }

/// An argument on a line of its own.
template <typename T>
std::string argument(std::string_view name, T value) {
  return "    " + std::string{name} + "=" + python(value) + ",\n";
}

std::string model_text(ModelConfig const& model) {
  return "CONFIG = LlamaConfig(\n" + argument("num_hidden_layers", model.layers) +
         argument("hidden_size", model.hidden) + argument("num_attention_heads", model.heads) +
         argument("num_key_value_heads", model.kv_heads) + argument("head_dim", model.head_dim) +
         argument("intermediate_size", model.ffn_hidden) +
         argument("vocab_size", model.vocabulary) +
         argument("max_position_embeddings", model.sequence) +
         argument("rms_norm_eps", model.norm_epsilon) +
         "    rope_parameters={\"rope_type\": \"default\", \"rope_theta\": " +
         python(model.rotary_base) + "},\n" +
         argument("tie_word_embeddings", model.tied_embeddings) + argument("use_cache", false) +
         ")\n";
}

std::string arguments_text(TrainingConfig const& config) {
  Hyperparameters const& numbers = config.training;
  std::string text =
      "ARGUMENTS = TrainingArguments(\n    output_dir=\"output\",\n" +
      argument("max_steps", std::int64_t{50}) +
      argument("per_device_train_batch_size", config.batch.micro) +
      argument("gradient_accumulation_steps", microbatches(config)) +
      argument(name_of(config.model.precision), true) +
      argument("learning_rate", numbers.learning_rate) + argument("adam_beta1", numbers.beta1) +
      argument("adam_beta2", numbers.beta2) + argument("adam_epsilon", numbers.epsilon) +
      argument("weight_decay", numbers.weight_decay) + argument("max_grad_norm", numbers.clip) +
      "    logging_steps=1,\n    save_strategy=\"no\",\n    report_to=\"none\",\n";
  if (config.recompute.front().granularity == RecomputeGranularity::full) {
    bool const stops = *settled_with_stack(config).recompute.front().early_stop;
    text +=
        "    gradient_checkpointing=True,\n    gradient_checkpointing_kwargs={\"use_reentrant\": " +
        python(!stops) + "},\n";
  }
  return text + ")\n";
}

std::string train_py(LaunchJob const& job) {
  return commented(job.about) +
         "\"\"\"Trains the planned model on random tokens: replace RandomTokens.\"\"\"\n\n"
         "import torch\n"
         "from transformers import AutoModelForCausalLM, LlamaConfig, Trainer, "
         "TrainingArguments\n\n" +
         arguments_text(job.config) + model_text(job.config.model) + R"(

class RandomTokens(torch.utils.data.Dataset):
    def __len__(self):
        return 1 << 20

    def __getitem__(self, index):
        generator = torch.Generator().manual_seed(index)
        tokens = torch.randint(CONFIG.vocab_size, (CONFIG.max_position_embeddings,), generator=generator)
        return {"input_ids": tokens, "labels": tokens}


if __name__ == "__main__":
    model = AutoModelForCausalLM.from_config(CONFIG, attn_implementation="sdpa")
    Trainer(model=model, args=ARGUMENTS, train_dataset=RandomTokens()).train()
)";
}

}  // namespace

std::vector<LaunchFile> deepspeed_files(LaunchJob const& job) {
  return {{"accelerate.sh", accelerate_script(job),
           "starts the job with Accelerate; run it on every node"},
          {"accelerate.yaml", accelerate_yaml(job), "the configuration of Accelerate"},
          {"deepspeed.json", deepspeed_json(job.config), "the configuration of DeepSpeed"},
          {"train.py", train_py(job), "a training program, with the Trainer of transformers"}};
}

std::string deepspeed_layout_flags(TrainingConfig const& config) {
  return "--use_deepspeed --zero_stage " + std::to_string(config.sharding.traits().zero_stage()) +
         " --gradient_accumulation_steps " + std::to_string(microbatches(config)) +
         " --mixed_precision " + std::string{name_of(config.model.precision)} +
         (config.offload.optimizer > 0 ? " --offload_optimizer_device cpu" : "");
}

}  // namespace stagecraft
