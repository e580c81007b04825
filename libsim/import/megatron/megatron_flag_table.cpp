#include "libsim/import/megatron/megatron_flag_table.hpp"

#include <algorithm>
#include <array>
#include <map>

#include "libsim/import/megatron/megatron_dialects.hpp"
#include "libsim/import/megatron/megatron_effects.hpp"
#include "libsim/import/megatron/megatron_idle_flags.hpp"
#include "libsim/run/run_keys.hpp"
#include "libsim/units/split_text.hpp"

namespace stagecraft {
namespace {

using Effect = MegatronFlag::Effect;
using V = FlagValues;

constexpr MegatronFlag renamed(std::string_view name, std::string_view now, V values = V::one) {
  return {.name = name, .values = values, .same_as = now, .is_old = true};
}
/// A name that a descendant of the current Megatron-LM has for one of its flags.
constexpr MegatronFlag alias(std::string_view name, std::string_view now, V values = V::one) {
  return {.name = name, .values = values, .same_as = now};
}
constexpr MegatronFlag old(std::string_view name, V values = V::one) {
  return {.name = name, .values = values, .is_old = true};
}
/// The flags that the reader uses, in the order in which a command line is written. A flag without
/// a value ends in !, one with several in *.
constexpr std::string_view read_flags =
    "num-layers hidden-size ffn-hidden-size num-attention-heads kv-channels "
    "group-query-attention! num-query-groups seq-length max-position-embeddings "
    "position-embedding-type use-rotary-position-embeddings! rotary-base rotary-percent "
    "use-rope-scaling! rope-scaling-factor tokenizer-type "
    "padded-vocab-size vocab-size make-vocab-size-divisible-by no-pad-vocab-size! normalization "
    "norm-epsilon "
    "swiglu! quick-geglu! squared-relu! disable-bias-linear! add-qkv-bias! qk-layernorm! "
    "untie-embeddings-and-output-weights! hidden-dropout attention-dropout use-flash-attn! "
    "attention-backend no-create-attention-mask-in-dataloader! glu-linear-offset "
    "activation-func-clamp-value softmax-type mtp-num-layers window-size window-attn-skip-freq "
    "multi-latent-attention! q-lora-rank kv-lora-rank qk-head-dim qk-pos-emb-head-dim "
    "v-head-dim fp16! bf16! fp8-format fp8-hybrid! fp8-e4m3! fp8-recipe "
    "fp8-param-gather! fp4-format fp4-recipe fp4-param-gather! reuse-grad-buf-for-mxfp8-param-ag! "
    "first-last-layers-bf16! num-layers-at-start-in-bf16 num-layers-at-end-in-bf16 no-fp8-wgrad! "
    "fp8-output-proj! fp8-dot-product-attention! activation-func-fp8-input-store! "
    "accumulate-allreduce-grads-in-fp32! num-experts* moe-router-topk "
    "moe-ffn-hidden-size moe-shared-expert-intermediate-size moe-shared-expert-gate! "
    "moe-shared-expert-overlap! moe-apply-probs-on-input! moe-layer-freq "
    "first-k-dense-replace n-shared-experts norm-topk-prob! "
    "moe-router-score-function moe-router-pre-softmax! moe-router-enable-expert-bias! "
    "moe-router-topk-scaling-factor moe-router-num-groups moe-router-group-topk "
    "moe-router-dtype moe-router-load-balancing-type* moe-aux-loss-coeff* moe-z-loss-coeff "
    "moe-permute-fusion! transformer-impl moe-token-dispatcher-type "
    "moe-flex-dispatcher-backend moe-enable-deepep! moe-deepep-num-sms "
    "moe-router-force-load-balancing! "
    "moe-expert-capacity-factor moe-pad-expert-input-to-capacity! moe-token-drop-policy "
    "expert-model-parallel-size expert-tensor-parallel-size tensor-model-parallel-size "
    "pipeline-model-parallel-size pipeline-model-parallel-layout "
    "num-virtual-stages-per-pipeline-rank num-layers-per-virtual-pipeline-stage "
    "no-scatter-gather-tensors-in-pipeline! decoder-first-pipeline-num-layers "
    "decoder-last-pipeline-num-layers account-for-embedding-in-pipeline-split! "
    "account-for-loss-in-pipeline-split! microbatch-group-size-per-virtual-pipeline-stage "
    "no-overlap-p2p-communication! context-parallel-size cp-comm-type* "
    "hierarchical-context-parallel-sizes* ds-sequence-parallel-size sequence-parallel! "
    "use-distributed-optimizer! use-megatron-fsdp! data-parallel-sharding-strategy "
    "megatron-fsdp-version megatron-fsdp-main-params-dtype megatron-fsdp-main-grads-dtype "
    "megatron-fsdp-grad-comm-dtype overlap-grad-reduce! ddp-bucket-size grad-reduce-in-bf16! "
    "use-precision-aware-optimizer! main-grads-dtype exp-avg-dtype exp-avg-sq-dtype "
    "overlap-moe-expert-parallel-comm! empty-unused-memory-level micro-batch-size "
    "global-batch-size recompute-activations! recompute-granularity recompute-method "
    "recompute-num-layers recompute-modules* moe-layer-recompute! "
    "distribute-saved-activations! cpu-offloading-num-layers "
    "fine-grained-activation-offloading! offload-modules* activation-offload-fraction seed "
    "init-method-std "
    "lr adam-beta1 adam-beta2 adam-eps weight-decay clip-grad initial-loss-scale loss-scale "
    "zero-stage step-batch-size-schedule encoder-num-layers encoder-seq-length optimizer "
    "pp-partition-method num-layer-list noop-layers post-norm! context-parallel-algo "
    "router-gating-in-fp32! moe-tp-extend-ep! enable-expert-tensor-parallelism! geglu! gelu-tanh! "
    "glu-activation";

/// Flags of former versions and of descendants that the reader uses.
constexpr std::array former_flags{
    old("checkpoint-activations", V::none), old("checkpoint-num-layers"),
    old("activations-checkpoint-granularity"), old("activations-checkpoint-method"),
    old("activations-checkpoint-num-layers"),
    renamed("distribute-checkpointed-activations", "distribute-saved-activations", V::none),
    MegatronFlag{.name = "disable-pad-vocab-size", .same_as = "no-pad-vocab-size"},
    renamed("model-parallel-size", "tensor-model-parallel-size"),
    renamed("intra-layer-model-parallel-size", "tensor-model-parallel-size"),
    renamed("batch-size", "micro-batch-size"), renamed("layernorm-epsilon", "norm-epsilon"),
    renamed("pad-vocab-size-to", "padded-vocab-size"), old("num-key-value-heads"),
    renamed("rotary-position-embeddings-theta", "rotary-base"),
    renamed("use-flash-attn-v1", "use-flash-attn", V::none),
    renamed("use-flash-attn-v2", "use-flash-attn", V::none),
    renamed("use-flash-attn-triton", "use-flash-attn", V::none),
    renamed("use-flash-attn-builder", "use-flash-attn", V::none),
    // The newest name, of the multiprocessors of each backend
    alias("moe-flex-dispatcher-num-sms", "moe-deepep-num-sms"),
    // MindSpeed-LLM and Pai-Megatron-Patch
    alias("moe-intermediate-size", "moe-ffn-hidden-size"),
    alias("shared-expert-gate", "moe-shared-expert-gate", V::none),
    alias("intermediate-size", "ffn-hidden-size"), renamed("n-head-kv", "num-key-value-heads"),
    // bigcode-project/Megatron-LM and alibaba/Megatron-LLaMA
    old("attention-head-type"), old("RMSNorm", V::none),
    renamed("overlapped-distributed-optimizer", "use-distributed-optimizer", V::none),
    // Megatron-DeepSpeed
    old("mlp-type"), old("expert-interval"), old("disable-moe-token-dropping", V::none),
    alias("topk", "moe-router-topk"),
    alias("moe-train-capacity-factor", "moe-expert-capacity-factor"),
    alias("moe-loss-coeff", "moe-aux-loss-coeff", V::many),
    alias("moe-expert-parallel-size", "expert-model-parallel-size"),
    // megablocks
    old("moe-expert-model-parallelism", V::none),
    renamed("moe-num-experts", "num-experts", V::many), renamed("moe-top-k", "moe-router-topk"),
    renamed("moe-capacity-factor", "moe-expert-capacity-factor"),
    renamed("moe-loss-weight", "moe-aux-loss-coeff", V::many),
    renamed("moe-jitter-eps", "moe-input-jitter-eps")};

/// Those of the flags without effect that only Megatron-LM of 2020 to 2022 has.
constexpr std::array old_names{std::string_view{"DDP-impl"}, std::string_view{"data-impl"},
                               std::string_view{"override-lr-scheduler"},
                               std::string_view{"use-checkpoint-lr-scheduler"},
                               std::string_view{"no-contiguous-buffers-in-local-ddp"}};

using Table = std::map<std::string_view, MegatronFlag>;

/// A name as the tables have it: with ! if the flag has no value, * if it has several.
MegatronFlag flag_of(std::string_view name) {
  V const values = name.ends_with('!') ? V::none : name.ends_with('*') ? V::many : V::one;
  if (values != V::one) name.remove_suffix(1);
  return {.name = name, .values = values};
}

void add_idle(Table& table, std::string_view names, V values = V::one) {
  for (std::string_view const name : split_text(names, " ")) {
    MegatronFlag flag = flag_of(name);
    if (values != V::one) flag.values = values;
    flag.effect = Effect::none;
    flag.is_old = std::ranges::find(old_names, flag.name) != old_names.end();
    table[flag.name] = flag;
  }
}

/// Adds rows `name | effect | which way | instead | needs`.
void add_effects(Table& table, std::string_view rows) {
  for (std::string_view const row : split_text(rows, "\n")) {
    std::vector<std::string_view> columns = split_text(row, " | ");
    if (columns.size() < 4) continue;  // the empty lines at both ends
    std::string_view name = columns[0];
    std::string_view harmless;
    if (std::size_t const equals = name.find('='); equals != std::string_view::npos) {
      harmless = name.substr(equals + 1);
      name = name.substr(0, equals);
    }
    MegatronFlag flag = flag_of(name);
    flag.effect = columns[1] == "program" ? Effect::program
                  : columns[1] == "small" ? Effect::small
                                          : Effect::large;
    flag.harmless = harmless;
    flag.direction = columns[2];
    flag.instead = columns[3];
    if (columns.size() > 4) flag.needs = columns[4];
    table[flag.name] = flag;
  }
}

void add_read(Table& table) {
  std::size_t place = 0;
  for (std::string_view const name : split_text(read_flags, " ")) {
    MegatronFlag flag = flag_of(name);
    flag.place = place++;
    table[flag.name] = flag;
  }
}

Table const& table() {
  static Table const all = [] {
    Table flags;
    for (std::string_view const names :
         {idle_flags_of_reinforcement, idle_flags_of_other_models, idle_flags_of_inference,
          idle_flags_of_execution, idle_flags_of_optimizer, idle_flags_of_checkpoints,
          idle_flags_of_data, idle_flags_of_logging}) {
      add_idle(flags, names);
    }
    add_idle(flags, dialect_flags_of_programs);
    add_idle(flags, dialect_flags_alone, V::none);
    add_idle(flags, dialect_flags_with_value);
    add_idle(flags, dialect_flags_with_values, V::many);
    for (std::string_view const rows :
         {effects_of_model, effects_of_precision, effects_of_sharding, effects_of_communication,
          effects_of_kernels, effects_of_dialects}) {
      add_effects(flags, rows);
    }
    for (MegatronFlag const& flag : former_flags) flags[flag.name] = flag;
    add_read(flags);
    for (KeyText const& key : run_keys()) {
      std::string_view const name = key.flag.name;
      V const values = key.flag.word.empty() ? V::one : V::none;
      if (!name.empty()) flags.emplace(name, MegatronFlag{.name = name, .values = values});
    }
    return flags;
  }();
  return all;
}

}  // namespace

MegatronFlag const* find_flag(std::string_view name) {
  auto const found = table().find(name);
  return found == table().end() ? nullptr : &found->second;
}

std::size_t place_of_flag(std::string_view name) {
  MegatronFlag const& flag = table().at(name);
  return flag.same_as.empty() ? flag.place : table().at(flag.same_as).place;
}

std::vector<std::string> flag_names() {
  std::vector<std::string> names;
  for (auto const& [name, flag] : table()) names.push_back("--" + std::string{name});
  return names;
}

}  // namespace stagecraft
