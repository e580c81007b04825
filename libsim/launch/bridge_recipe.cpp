#include "libsim/launch/bridge_recipe.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <sstream>
#include <string_view>
#include <utility>
#include <vector>

#include "libsim/import/megatron/megatron_config_names.hpp"
#include "libsim/import/megatron/megatron_flags.hpp"

namespace stagecraft {
namespace {

/// How the value of a flag is written in Python.
enum class Literal {
  as_written,  ///< a number as it is, any other word in quotes, True without a value
  expression,  ///< the value is Python
  words,       ///< a list of words
  numbers,     ///< a list of numbers
  pair,        ///< a tuple: `4095,0`
  backend,     ///< a member of AttnBackend
  type,        ///< a type of torch
  no,          ///< False
  constant,    ///< BridgeField::value
};

/// A field that a flag says, where its name does not follow from the flag's or it is not of the
/// model.
struct BridgeField {
  std::string_view flag;
  std::string_view section;  ///< of the ConfigContainer; empty: the flag says nothing more
  std::string_view field = {};
  Literal literal = Literal::as_written;
  std::string_view value = {};
};

/// A flag may have several rows.
constexpr std::array bridge_fields{
    BridgeField{"seq-length", "model", "seq_length"},
    BridgeField{"seq-length", "dataset", "seq_length"},
    BridgeField{"group-query-attention", ""},
    BridgeField{"max-position-embeddings", ""},
    BridgeField{"tokenizer-type", "tokenizer", "tokenizer_type"},
    BridgeField{"vocab-size", "tokenizer", "vocab_size"},
    BridgeField{"swiglu", "model", "gated_linear_unit", Literal::constant, "True"},
    BridgeField{"swiglu", "model", "activation_func", Literal::constant, "F.silu"},
    BridgeField{"quick-geglu", "model", "gated_linear_unit", Literal::constant, "True"},
    BridgeField{"quick-geglu", "model", "activation_func", Literal::constant, "quick_gelu"},
    BridgeField{"squared-relu", "model", "activation_func", Literal::constant, "squared_relu"},
    BridgeField{"attention-backend", "model", "attention_backend", Literal::backend},
    BridgeField{"no-create-attention-mask-in-dataloader", "dataset",
                "skip_getting_attention_mask_from_dataset", Literal::constant, "True"},
    BridgeField{"multi-latent-attention", ""},
    BridgeField{"use-rope-scaling", "model", "rope_scaling"},
    BridgeField{"window-size", "model", "window_size", Literal::pair},
    BridgeField{"window-attn-skip-freq", "model", "window_attn_skip_freq", Literal::expression},
    BridgeField{"fp16", "mixed_precision", "fp16"},
    BridgeField{"bf16", "mixed_precision", "bf16"},
    BridgeField{"accumulate-allreduce-grads-in-fp32", ""},
    BridgeField{"grad-reduce-in-bf16", ""},
    BridgeField{"initial-loss-scale", "mixed_precision", "initial_loss_scale"},
    BridgeField{"loss-scale", "mixed_precision", "loss_scale"},
    BridgeField{"moe-layer-freq", "model", "moe_layer_freq", Literal::expression},
    BridgeField{"expert-model-parallel-size", "model", "expert_model_parallel_size"},
    BridgeField{"hierarchical-context-parallel-sizes", "model",
                "hierarchical_context_parallel_sizes", Literal::numbers},
    BridgeField{"recompute-modules", "model", "recompute_modules", Literal::words},
    BridgeField{"use-distributed-optimizer", "ddp", "use_distributed_optimizer"},
    BridgeField{"use-distributed-optimizer", "optimizer", "use_distributed_optimizer"},
    BridgeField{"overlap-grad-reduce", "ddp", "overlap_grad_reduce"},
    BridgeField{"ddp-bucket-size", "ddp", "bucket_size"},
    BridgeField{"use-precision-aware-optimizer", "optimizer", "use_precision_aware_optimizer"},
    BridgeField{"main-grads-dtype", "optimizer", "main_grads_dtype", Literal::type},
    BridgeField{"exp-avg-dtype", "optimizer", "exp_avg_dtype", Literal::type},
    BridgeField{"exp-avg-sq-dtype", "optimizer", "exp_avg_sq_dtype", Literal::type},
    BridgeField{"empty-unused-memory-level", "train", "empty_unused_memory_level"},
    BridgeField{"micro-batch-size", "train", "micro_batch_size"},
    BridgeField{"global-batch-size", "train", "global_batch_size"},
    BridgeField{"seed", "rng", "seed"},
    BridgeField{"seed", "dataset", "random_seed"},
    BridgeField{"lr", "optimizer", "lr"},
    BridgeField{"adam-beta1", "optimizer", "adam_beta1"},
    BridgeField{"adam-beta2", "optimizer", "adam_beta2"},
    BridgeField{"adam-eps", "optimizer", "adam_eps"},
    BridgeField{"weight-decay", "optimizer", "weight_decay"},
    BridgeField{"clip-grad", "optimizer", "clip_grad"}};

/// The fields of each section, in the order in which they are written.
using Sections = std::map<std::string_view, std::vector<std::pair<std::string, std::string>>>;

bool is_number(std::string const& text) {
  return !text.empty() && text.find_first_not_of("0123456789.+-e") == std::string::npos &&
         text.find_first_of("0123456789") == 0;
}

std::string quoted(std::string const& text) { return "\"" + text + "\""; }

/// "[a, b]"
std::string list_of(std::vector<std::string> const& values, bool has_quotes) {
  std::string text;
  for (std::string const& value : values) {
    text += (text.empty() ? "" : ", ") + (has_quotes ? quoted(value) : value);
  }
  return "[" + text + "]";
}

std::string type_of(std::string const& name) {
  return name == "bf16"   ? "torch.bfloat16"
         : name == "fp16" ? "torch.float16"
         : name == "fp8"  ? "torch.uint8"
                          : "torch.float32";
}

std::string literal_of(FlagWords const& words, BridgeField const& field) {
  if (field.literal == Literal::constant) return std::string{field.value};
  if (field.literal == Literal::no) return "False";
  if (words.values.empty()) return "True";
  std::string const& value = words.values.front();
  switch (field.literal) {
    case Literal::expression:
      return value;
    case Literal::words:
      return list_of(words.values, true);
    case Literal::numbers:
      return list_of(words.values, false);
    case Literal::pair:
      return "(" + value + ")";
    case Literal::backend:
      return "AttnBackend." + value;
    case Literal::type:
      return type_of(value);
    default:
      return is_number(value) ? value : quoted(value);
  }
}

/// The field of the model that a flag without a row says: by its other name, or with underscores.
BridgeField field_of(std::string const& flag, std::string& name) {
  for (ConfigName const& other : config_names) {
    if (other.flag != flag) continue;
    name = other.name;
    bool const is_left = other.says == ConfigName::Says::is_left;
    return {flag, "model", name, is_left ? Literal::no : Literal::as_written};
  }
  name = flag;
  std::ranges::replace(name, '-', '_');
  return {flag, "model", name};
}

Sections sections_of(std::vector<FlagWords> const& flags) {
  Sections sections;
  for (FlagWords const& words : flags) {
    auto const add = [&](BridgeField const& field) {
      if (field.section.empty()) return;
      sections[field.section].emplace_back(field.field, literal_of(words, field));
    };
    bool has_row = false;
    for (BridgeField const& field : bridge_fields) {
      if (field.flag != words.flag) continue;
      add(field);
      has_row = true;
    }
    std::string name;
    if (!has_row) add(field_of(words.flag, name));
  }
  return sections;
}

/// What Megatron-Bridge would choose otherwise than Megatron-LM does without a flag.
void add_assumptions(TrainingConfig const& config, Sections& sections) {
  auto const text_of = [](bool value) { return std::string{value ? "True" : "False"}; };
  bool const is_half =
      config.model.precision == Precision::fp16 || config.model.precision == Precision::bf16;
  std::string const reduces_wide =
      text_of(is_half && config.memory.gradient_dtype != StateType::bf16);
  std::string const type = config.model.precision == Precision::bf16   ? "torch.bfloat16"
                           : config.model.precision == Precision::fp16 ? "torch.float16"
                                                                       : "torch.float32";
  auto& model = sections["model"];
  if (config.parallel.pipeline > 1) {
    model.emplace_back("pipeline_dtype", type);
    bool const overlaps = config.parallel.interleave > 1 && config.schedule.p2p == P2p::overlapped;
    auto const has_row = [](auto const& row) { return row.first == "overlap_p2p_comm"; };
    if (std::ranges::none_of(model, has_row)) {
      model.emplace_back("overlap_p2p_comm", text_of(overlaps));
    }
    model.emplace_back("batch_p2p_comm", text_of(!overlaps));
  }
  auto& ddp = sections["ddp"];
  if (std::ranges::none_of(ddp,
                           [](auto const& row) { return row.first == "overlap_grad_reduce"; })) {
    ddp.emplace_back("overlap_grad_reduce", "False");
  }
  ddp.emplace_back("overlap_param_gather", "False");
  ddp.emplace_back("grad_reduce_in_fp32", reduces_wide);
  auto& mixed = sections["mixed_precision"];
  mixed.emplace_back("params_dtype", type);
  mixed.emplace_back("pipeline_dtype", type);
  mixed.emplace_back("autocast_enabled", "False");
  mixed.emplace_back("grad_reduce_in_fp32", reduces_wide);
  sections["optimizer"].emplace_back("optimizer", "\"adam\"");
  auto& dataset = sections["dataset"];
  if (config.model.causal_mask != CausalMask::none) {
    dataset.emplace_back("skip_getting_attention_mask_from_dataset", "False");
  }
  for (char const* const name : {"reset_position_ids", "reset_attention_mask", "eod_mask_loss"}) {
    dataset.emplace_back(name, "False");
  }
  dataset.emplace_back("split", "\"9999,8,2\"");
  dataset.emplace_back("dataloader_type", "\"single\"");
  sections["logger"].emplace_back("log_interval", "1");
  auto& train = sections["train"];
  train.emplace_back("train_iters", "50");
  train.emplace_back("eval_iters", "0");
}

/// `name=Class(field=value, ...),`
std::string section_text(std::string_view name, std::string_view type, Sections const& sections) {
  std::string text = "        " + std::string{name} + "=" + std::string{type} + "(";
  auto const found = sections.find(name);
  if (found == sections.end()) return text + "),\n";
  text += "\n";
  for (auto const& [field, value] : found->second) {
    text += "            " + field + "=" + value + ",\n";
  }
  return text + "        ),\n";
}

constexpr char const* imports = R"(import torch
import torch.nn.functional as F
from megatron.bridge.models.gpt_provider import GPTModelProvider
from megatron.bridge.models.mla_provider import MLAModelProvider
from megatron.bridge.training.config import (
    CheckpointConfig,
    ConfigContainer,
    DistributedDataParallelConfig,
    GPTDatasetConfig,
    LoggerConfig,
    OptimizerConfig,
    RNGConfig,
    SchedulerConfig,
    TrainingConfig,
)
from megatron.bridge.training.gpt_step import forward_step
from megatron.bridge.training.mixed_precision import MixedPrecisionConfig
from megatron.bridge.training.pretrain import pretrain
from megatron.bridge.training.tokenizers.config import TokenizerConfig
from megatron.core.activations import quick_gelu, squared_relu
from megatron.core.transformer.enums import AttnBackend


def config() -> ConfigContainer:
    return ConfigContainer(
)";

}  // namespace

std::string bridge_recipe(LaunchJob const& job) {
  std::vector<FlagWords> const flags = flag_words(job.config);
  Sections sections = sections_of(flags);
  add_assumptions(job.config, sections);
  bool const has_latents = std::ranges::any_of(
      flags, [](FlagWords const& words) { return words.flag == "multi-latent-attention"; });
  JobNodes const nodes = nodes_of(job);
  std::string text =
      "\"\"\"" + job.about +
      "\nFor megatron-bridge 0.3.1. On every node:\n\n    torchrun --nproc-per-node " +
      std::to_string(nodes.per_node) + " --nnodes " + std::to_string(nodes.nodes) +
      " --node-rank ... --master-addr ... megatron_bridge.py\n\"\"\"\n\n";
  text += imports;
  text += section_text("model", has_latents ? "MLAModelProvider" : "GPTModelProvider", sections);
  for (auto const& [name, type] :
       {std::pair{"train", "TrainingConfig"}, std::pair{"optimizer", "OptimizerConfig"},
        std::pair{"scheduler", "SchedulerConfig"},
        std::pair{"ddp", "DistributedDataParallelConfig"}, std::pair{"dataset", "GPTDatasetConfig"},
        std::pair{"logger", "LoggerConfig"}, std::pair{"tokenizer", "TokenizerConfig"},
        std::pair{"checkpoint", "CheckpointConfig"}, std::pair{"rng", "RNGConfig"},
        std::pair{"mixed_precision", "MixedPrecisionConfig"}}) {
    text += section_text(name, type, sections);
  }
  return text + "    )\n\n\nif __name__ == \"__main__\":\n    pretrain(config(), forward_step)\n";
}

}  // namespace stagecraft
