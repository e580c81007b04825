#include "libsim/launch/trainer_files.hpp"

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>

#include "libsim/model/model_names.hpp"
#include "libsim/training/training_names.hpp"

namespace stagecraft {
namespace {

std::string python(bool value) { return value ? "True" : "False"; }
std::string python(double value) { return nlohmann::json(value).dump(); }
std::string python(std::int64_t value) { return std::to_string(value); }

/// An argument on a line of its own.
template <typename T>
std::string argument(std::string_view name, T value) {
  return "    " + std::string{name} + "=" + python(value) + ",\n";
}

std::string rope_words(ModelConfig const& model) {
  std::string const base = "\"rope_theta\": " + python(model.rotary_base);
  if (model.rotary_scaling == 1) return "\"rope_type\": \"default\", " + base;
  return "\"rope_type\": \"llama3\", " + base + ", \"factor\": " + python(model.rotary_scaling) +
         ", \"low_freq_factor\": 1.0, \"high_freq_factor\": 4.0, "
         "\"original_max_position_embeddings\": 8192";
}

std::string model_text(ModelConfig const& model) {
  return "CONFIG = LlamaConfig(\n" + argument("num_hidden_layers", model.layers) +
         argument("hidden_size", model.hidden) + argument("num_attention_heads", model.heads) +
         argument("num_key_value_heads", model.kv_heads) + argument("head_dim", model.head_dim) +
         argument("intermediate_size", model.ffn_hidden) +
         argument("vocab_size", model.vocabulary) +
         argument("max_position_embeddings", model.sequence) +
         argument("rms_norm_eps", model.norm_epsilon) + "    rope_parameters={" +
         rope_words(model) + "},\n" + argument("tie_word_embeddings", model.tied_embeddings) +
         argument("use_cache", false) + ")\n";
}

std::string arguments_text(TrainingConfig const& config, bool checkpoints) {
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
  if (checkpoints && config.recompute.front().granularity == RecomputeGranularity::full) {
    bool const stops = *settled_with_stack(config).recompute.front().early_stop;
    text +=
        "    gradient_checkpointing=True,\n    gradient_checkpointing_kwargs={\"use_reentrant\": " +
        python(!stops) + "},\n";
  }
  return text + ")\n";
}

}  // namespace

std::vector<std::string> trainer_gaps(TrainingConfig const& config) {
  std::vector<std::string> gaps;
  if (config.low_precision.recipe != Recipe::none) {
    gaps.emplace_back("low_precision: transformers multiplies in model.precision");
  }
  for (RecomputePolicy const& policy : config.recompute) {
    bool const is_whole = policy.granularity == RecomputeGranularity::full &&
                          policy.method == RecomputeMethod::uniform && policy.layers == 1;
    if (policy.granularity != RecomputeGranularity::none && !is_whole) {
      gaps.emplace_back("recompute: transformers checkpoints every layer, or none");
    }
    if (policy.store_microbatches.automatic || policy.store_microbatches.count > 0) {
      gaps.emplace_back("recompute.store_microbatches: the Trainer's microbatches are alike");
    }
  }
  return gaps;
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

std::string train_py(LaunchJob const& job, bool checkpoints) {
  return commented(job.about) +
         "\"\"\"Trains the planned model on random tokens: replace RandomTokens.\"\"\"\n\n"
         "import torch\n"
         "from transformers import AutoModelForCausalLM, LlamaConfig, Trainer, "
         "TrainingArguments\n\n" +
         arguments_text(job.config, checkpoints) + model_text(job.config.model) + R"(

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

}  // namespace stagecraft
