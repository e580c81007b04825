#include "libsim/import/megatron/megatron_flags.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <concepts>
#include <sstream>
#include <string_view>
#include <utility>
#include <vector>

#include "libsim/import/megatron/megatron_attention.hpp"
#include "libsim/import/megatron/megatron_experts.hpp"
#include "libsim/import/megatron/megatron_low_precision.hpp"
#include "libsim/import/pipeline_layout.hpp"
#include "libsim/model/recompute_regions.hpp"
#include "libsim/run/run_keys.hpp"
#include "libsim/training/layer_split.hpp"
#include "libsim/training/training_config_reader.hpp"

namespace stagecraft {
namespace {

/// Collects flags, from the descriptors of keys or one by one, and writes them in the order of the
/// flag table.
class FlagLine {
 public:
  /// Adds the flags that the descriptors of the keys below `section` name.
  void add_keys(nlohmann::ordered_json const& config,
                MegatronVersion version,
                std::string_view section = {}) {
    for (KeyText const& key : run_keys()) {
      if (!key.key.starts_with(section)) continue;
      bool const is_of_2022 = version == MegatronVersion::of_2022;
      std::string_view const name = is_of_2022 ? key.flag.in_2022 : key.flag.name;
      auto const at = pointer_to(key.key);
      if (name.empty() || !config.contains(at)) continue;
      nlohmann::ordered_json const& said = config.at(at);
      if (!key.flag.word.empty()) {
        flag(name, text_of(said) == key.flag.word);
      } else if (!key.flag.in_2022.empty() || said != *key.flag.left_out) {
        said.is_number_integer() ? value(name, said.get<std::int64_t>())
                                 : value(name, said.get<double>());
      }
    }
  }

  FlagLine& flag(std::string_view name, bool is_set = true) {
    if (is_set && !name.empty()) flags_.push_back({place_of_flag(name), "--" + std::string{name}});
    return *this;
  }
  FlagLine& value(std::string_view name, std::string_view text) {
    flag(name);
    flags_.back().text += ' ';
    flags_.back().text += text;
    return *this;
  }
  template <std::integral Integer>
  FlagLine& value(std::string_view name, Integer number) {
    return value(name, std::string_view{std::to_string(number)});
  }
  /// Writes the shortest text that reads back as the same number.
  FlagLine& value(std::string_view name, double number) {
    std::array<char, 32> digits{};
    auto const end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
    return value(name,
                 std::string_view{digits.data(), static_cast<std::size_t>(end - digits.data())});
  }
  /// Leaves out the flags that do not stand between these two in the flag table.
  FlagLine& keep(std::string_view first, std::string_view last) {
    std::erase_if(flags_, [&](Flag const& flag) {
      return flag.place < place_of_flag(first) || flag.place > place_of_flag(last);
    });
    return *this;
  }
  std::string text() && {
    std::ranges::stable_sort(flags_, {}, &Flag::place);
    std::string text;
    for (Flag const& flag : flags_) text += (text.empty() ? "" : " ") + flag.text;
    return text;
  }

 private:
  struct Flag {
    std::size_t place = 0;
    std::string text;  ///< with its value
  };
  std::vector<Flag> flags_;
};

bool is_half(ModelConfig const& model) {
  return model.precision == Precision::fp16 || model.precision == Precision::bf16;
}

void write_precision(FlagLine& line, TrainingConfig const& config) {
  ModelConfig const& model = config.model;
  bool const is_narrow = config.memory.gradient_dtype != StateType::fp32;
  line.flag("fp16", model.precision == Precision::fp16)
      .flag("bf16", model.precision == Precision::bf16)
      .flag("accumulate-allreduce-grads-in-fp32", is_half(model) && !is_narrow);
  if (config.low_precision.recipe == Recipe::none) return;
  LowPrecisionFlags const low = low_precision_flags(config.low_precision);
  for (auto const& [name, value] : low.values) line.value(name, value);
  for (std::string_view const name : low.switches) line.flag(name);
}

void write_widths(FlagLine& line, ModelConfig const& model) {
  line.value("num-layers", model.layers)
      .value("hidden-size", model.hidden)
      .value("ffn-hidden-size", model.ffn_hidden)
      .value("num-attention-heads", model.heads);
  bool const has_own_heads = model.head_dim * model.heads != model.hidden;
  if (has_own_heads && !has_latents(model)) line.value("kv-channels", model.head_dim);
}

/// The GPT of 2022: learned positions, LayerNorm, GELU, biases, tied embeddings, and the vocabulary
/// of its tokenizer.
void write_model_of_2022(FlagLine& line, TrainingConfig const& config) {
  ModelConfig const& model = config.model;
  write_widths(line, model);
  line.value("seq-length", model.sequence)
      .value("max-position-embeddings", position_rows(model))
      .value("tokenizer-type", "GPT2BPETokenizer")
      .value("make-vocab-size-divisible-by", model.vocabulary_multiple);
  write_precision(line, config);
}

void write_latents(FlagLine& line, LatentAttention const& latents) {
  if (latents.key_rank == 0) return;
  line.flag("multi-latent-attention", true);
  if (latents.query_rank > 0) line.value("q-lora-rank", latents.query_rank);
  line.value("kv-lora-rank", latents.key_rank)
      .value("qk-head-dim", latents.nope_dim)
      .value("qk-pos-emb-head-dim", latents.rope_dim)
      .value("v-head-dim", latents.value_dim);
}

void write_losses(FlagLine& line, RouterConfig const& router) {
  auto const type = std::ranges::find(loss_types, router.loss, &LossType::first);
  line.value("moe-router-load-balancing-type", type != loss_types.end() ? type->second : "none");
  if (router.loss != RouterLoss::none) line.value("moe-aux-loss-coeff", router.loss_coefficient);
}

void write_router(FlagLine& line, RouterConfig const& router) {
  bool const is_sigmoid = router.score == RouterScore::sigmoid;
  line.value("moe-router-score-function", is_sigmoid ? "sigmoid" : "softmax")
      .flag("moe-router-pre-softmax", router.order == RouterOrder::before && !router.normalise);
  if (router.scaling != 1) line.value("moe-router-topk-scaling-factor", router.scaling);
  if (router.groups > 1) {
    line.value("moe-router-num-groups", router.groups)
        .value("moe-router-group-topk", router.groups_per_token);
  }
  if (router.precision == RouterPrecision::fp32) line.value("moe-router-dtype", "fp32");
  write_losses(line, router);
}

void write_expert_shapes(FlagLine& line, ModelConfig const& model) {
  ExpertsConfig const& experts = *model.experts;
  line.value("num-experts", experts.count)
      .value("moe-router-topk", experts.per_token)
      .value("moe-ffn-hidden-size", experts.ffn_hidden);
  if (experts.shared_ffn_hidden > 0) {
    line.value("moe-shared-expert-intermediate-size", experts.shared_ffn_hidden)
        .flag("moe-shared-expert-gate", experts.shared_gate);
  }
  if (experts.first_dense > 0 || experts.every > 1) {
    line.value("moe-layer-freq", layer_frequency(experts, model.layers));
  }
  write_router(line, experts.router);
}

void write_experts(FlagLine& line, TrainingConfig const& config) {
  if (!config.model.experts) return;
  write_expert_shapes(line, config.model);
  bool const has_shared = config.model.experts->shared_ffn_hidden > 0;
  line.flag("moe-shared-expert-overlap", has_shared && config.parallel.shared_expert_overlap);
  bool const is_deepep = config.dispatch == Dispatch::deepep;
  bool const gathers = config.dispatch == Dispatch::allgather;
  line.flag("moe-permute-fusion")
      .value("moe-token-dispatcher-type", is_deepep ? "flex"
                                          : gathers ? "allgather"
                                                    : "alltoall")
      .flag("moe-enable-deepep", is_deepep);
  if (config.routing.capacity) {
    line.value("moe-expert-capacity-factor", *config.routing.capacity)
        .flag("moe-pad-expert-input-to-capacity", config.routing.pads);
    if (config.routing.drop == DropBy::position) line.value("moe-token-drop-policy", "position");
  }
  line.value("expert-model-parallel-size", config.parallel.expert)
      .value("expert-tensor-parallel-size", config.parallel.expert_tensor);
}

/// FlashAttention itself has no sinks, cuDNN's fused attention has.
std::string_view attention_backend(ModelConfig const& model) {
  if (model.attention == Attention::unfused) return "unfused";
  return model.sinks ? "fused" : "flash";
}

void write_windows(FlagLine& line, ModelConfig const& model) {
  auto const layers = find_windows(model);
  if (!layers || layers->size == 0) return;
  line.value("window-size", std::to_string(layers->size - 1) + ",0");
  std::string const frequency = window_frequency(*layers);
  if (!frequency.empty()) line.value("window-attn-skip-freq", frequency);
}

void write_shapes(FlagLine& line, ModelConfig const& model) {
  write_widths(line, model);
  if (model.kv_heads != model.heads) {
    line.flag("group-query-attention").value("num-query-groups", model.kv_heads);
  }
  bool const is_rotary = model.positions == Positions::rotary;
  line.value("seq-length", model.sequence)
      .value("max-position-embeddings", is_rotary ? model.sequence : position_rows(model))
      .value("position-embedding-type", is_rotary ? "rope" : "learned_absolute");
  if (is_rotary) {
    // Megatron-LM accepts only a whole number here.
    bool const is_whole = model.rotary_base == std::floor(model.rotary_base);
    if (is_whole) {
      line.value("rotary-base", static_cast<std::int64_t>(model.rotary_base));
    } else {
      line.value("rotary-base", model.rotary_base);
    }
    if (model.rotary_scaling != 1) {
      line.flag("use-rope-scaling").value("rope-scaling-factor", model.rotary_scaling);
    }
  }
  line.value("make-vocab-size-divisible-by", model.vocabulary_multiple)
      .value("normalization", model.norm == Norm::rmsnorm ? "RMSNorm" : "LayerNorm")
      .flag("swiglu", model.activation == Activation::swiglu)
      .flag("quick-geglu",
            model.activation == Activation::geglu || model.activation == Activation::swiglu_clamped)
      .flag("add-qkv-bias", model.qkv_bias && !model.biases)
      .flag("qk-layernorm", model.qk_norm == QkNorm::head || has_latents(model));
  if (model.activation == Activation::swiglu_clamped) {
    line.value("glu-linear-offset", 1.0).value("activation-func-clamp-value", 7.0);
  }
  if (model.sinks) line.value("softmax-type", "learnable");
  write_windows(line, model);
  write_latents(line, model.latent_attention);
}

void write_model(FlagLine& line, TrainingConfig const& config) {
  ModelConfig const& model = config.model;
  write_shapes(line, model);
  // NullTokenizer has one token more than it is told, the one that ends documents.
  line.value("tokenizer-type", "NullTokenizer")
      .value("vocab-size", model.vocabulary - 1)
      .value("attention-backend", attention_backend(model));
  write_precision(line, config);
}

/// The types of gradients and moments, which models in bf16 alone have.
void write_state_types(FlagLine& line, TrainingConfig const& config) {
  if (config.model.precision != Precision::bf16) return;
  line.flag("grad-reduce-in-bf16", config.memory.gradient_dtype == StateType::bf16);
  if (config.memory.moments_dtype != StateType::bf16) return;
  line.flag("use-precision-aware-optimizer")
      .value("exp-avg-dtype", "bf16")
      .value("exp-avg-sq-dtype", "bf16");
}

void write_sharding(FlagLine& line, TrainingConfig const& config) {
  Sharding const& sharding = config.sharding;
  bool const is_fsdp = sharding.kind == ShardingKind::megatron_fsdp;
  line.flag("use-distributed-optimizer",
            sharding.shares_optimizer() && !(is_fsdp && sharding.generation == 2));
  if (!is_fsdp) return;
  bool const is_wide = config.memory.gradient_dtype == StateType::fp32;
  line.flag("use-megatron-fsdp")
      .value("data-parallel-sharding-strategy", name_of(sharding.strategy))
      .value("megatron-fsdp-main-grads-dtype", is_wide ? "fp32" : "auto");
  if (sharding.generation != 1) line.value("megatron-fsdp-version", sharding.generation);
  if (sharding.reduce_dtype == UnitType::automatic) return;
  line.value("megatron-fsdp-grad-comm-dtype", name_of(sharding.reduce_dtype));
}

void write_offload(FlagLine& line, Offload const& offload) {
  ActivationOffload const& activations = offload.activations;
  if (activations.layers > 0) line.value("cpu-offloading-num-layers", activations.layers);
  if (activations.modules.empty()) return;
  std::string modules;
  for (auto const& [module, name] : EnumNames<OffloadModule>::all) {
    if (activations.modules.has(module)) {
      modules += (modules.empty() ? "" : " ") + std::string{name};
    }
  }
  line.flag("fine-grained-activation-offloading").value("offload-modules", modules);
  if (activations.fraction == 1) return;
  line.value("activation-offload-fraction", activations.fraction);
}

void write_empty_cache(FlagLine& line, TrainingConfig const& config) {
  EmptyCache const empties = config.memory.empty_cache;
  if (empties == EmptyCache::never) return;
  line.value("empty-unused-memory-level", static_cast<std::int64_t>(empties));
}

void write_layout_of_2022(FlagLine& line, TrainingConfig const& config) {
  ParallelLayout const& parallel = config.parallel;
  if (parallel.interleave > 1) {
    line.value("num-layers-per-virtual-pipeline-stage",
               config.model.layers / parallel.pipeline / parallel.interleave);
  }
  bool const is_cut = parallel.tensor > 1 && parallel.pipeline > 1 && !parallel.sequence;
  line.flag("no-scatter-gather-tensors-in-pipeline", is_cut && !config.schedule.scatter_gather)
      .flag("sequence-parallel", parallel.sequence && parallel.tensor > 1)
      .flag("use-distributed-optimizer", config.sharding.shares_optimizer());
  write_empty_cache(line, config);
}

void write_context(FlagLine& line, ParallelLayout const& parallel) {
  if (parallel.context == 1) return;
  line.value("context-parallel-size", parallel.context);
  if (parallel.context_inner > 1) {
    line.value("cp-comm-type", "a2a+p2p")
        .value("hierarchical-context-parallel-sizes",
               std::to_string(parallel.context_inner) + " " +
                   std::to_string(parallel.context / parallel.context_inner));
  } else if (parallel.context_method == ContextMethod::ulysses) {
    line.value("cp-comm-type", "a2a");
  } else if (parallel.context_method == ContextMethod::all_gather) {
    line.value("cp-comm-type", "all_gather");
  }
}

void write_layout(FlagLine& line, TrainingConfig const& config) {
  ParallelLayout const& parallel = config.parallel;
  LayerSplit const& layout = config.layout;
  // The flags of the first and the last stage do not take 0 (transformer_config.py).
  bool const is_list =
      layout.kind == LayerSplit::Kind::list || layout.first == 0 || layout.last == 0;
  if (is_list) {
    line.value("pipeline-model-parallel-layout",
               pipeline_layout(layers_of_virtual_stages(config), config.model.predicted_tokens));
  } else if (parallel.interleave > 1) {
    line.value("num-virtual-stages-per-pipeline-rank", parallel.interleave);
  }
  if (!is_list && layout.first) line.value("decoder-first-pipeline-num-layers", *layout.first);
  if (!is_list && layout.last) line.value("decoder-last-pipeline-num-layers", *layout.last);
  if (parallel.interleave > 1) {
    if (config.schedule.group != 0 && config.schedule.group != parallel.pipeline) {
      line.value("microbatch-group-size-per-virtual-pipeline-stage", config.schedule.group);
    }
    line.flag("no-overlap-p2p-communication", config.schedule.p2p == P2p::blocking);
  }
  write_context(line, parallel);
  line.flag("sequence-parallel", parallel.sequence && parallel.tensor > 1)
      .flag("overlap-moe-expert-parallel-comm", parallel.expert_overlap);
  write_sharding(line, config);
  write_state_types(line, config);
  write_offload(line, config.offload);
  write_empty_cache(line, config);
}

void write_recompute(FlagLine& line, RecomputePolicy const& policy, MegatronVersion version) {
  if (policy.granularity == RecomputeGranularity::none) return;
  if (policy.granularity == RecomputeGranularity::full) {
    line.value("recompute-granularity", "full")
        .value("recompute-method", policy.method == RecomputeMethod::block ? "block" : "uniform")
        .value("recompute-num-layers", policy.layers)
        .flag("distribute-saved-activations", policy.sharded_checkpoints);
    return;
  }
  line.value("recompute-granularity", "selective");
  if (version == MegatronVersion::of_2022) return;  // it recomputes the core of attention
  std::string modules;
  for (std::string const& name : policy.modules) {
    modules += (modules.empty() ? "" : " ") + std::string{find_region(name)->megatron_name};
  }
  line.value("recompute-modules", modules);
}

FlagLine all_flags(TrainingConfig const& config, MegatronVersion version) {
  FlagLine line;
  line.add_keys(to_json(settled_with_stack(config)), version);
  if (version == MegatronVersion::of_2022) {
    write_model_of_2022(line, config);
    write_layout_of_2022(line, config);
  } else {
    write_model(line, config);
    write_experts(line, config);
    write_layout(line, config);
  }
  line.value("micro-batch-size", config.batch.micro)
      .value("global-batch-size", config.batch.global);
  write_recompute(line, config.recompute.front(), version);
  return line;
}

std::vector<FlagWords> words_of_flags(std::string const& text) {
  std::istringstream words{text};
  std::vector<FlagWords> flags;
  for (std::string word; words >> word;) {
    if (word.starts_with("--")) {
      flags.push_back({word.substr(2), {}});
    } else if (!flags.empty()) {
      flags.back().values.push_back(std::move(word));
    }
  }
  return flags;
}

}  // namespace

std::string megatron_flags(TrainingConfig const& config, MegatronVersion version) {
  return all_flags(config, version).text();
}

std::vector<FlagWords> flag_words(TrainingConfig const& config, MegatronVersion version) {
  return words_of_flags(megatron_flags(config, version));
}

std::vector<FlagWords> model_flag_words(ModelConfig const& model) {
  TrainingConfig config;
  config.model = model;
  FlagLine line;
  line.add_keys(to_json(config), MegatronVersion::current, "model.");
  write_shapes(line, model);
  if (model.experts) write_expert_shapes(line, model);
  line.value("vocab-size", model.vocabulary)
      .flag("fp16", model.precision == Precision::fp16)
      .flag("bf16", model.precision == Precision::bf16);
  return words_of_flags(std::move(line).text());
}

std::string megatron_layout_flags(TrainingConfig const& config, MegatronVersion version) {
  FlagLine line = all_flags(config, version);
  line.keep("expert-model-parallel-size", "distribute-saved-activations");
  std::string text = std::move(line).text();
  if (config.low_precision.recipe == Recipe::none) return text;
  LowPrecisionFlags const low = low_precision_flags(config.low_precision);
  for (auto const& [name, value] : low.values) {
    text += " --" + std::string{name} + " " + std::string{value};
  }
  for (std::string_view const name : low.switches) text += " --" + std::string{name};
  return text;
}

}  // namespace stagecraft
