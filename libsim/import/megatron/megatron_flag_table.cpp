#include "libsim/import/megatron/megatron_flag_table.hpp"

#include <algorithm>
#include <array>
#include <map>

#include "libsim/import/megatron/megatron_dialects.hpp"
#include "libsim/run/run_keys.hpp"
#include "libsim/units/split_text.hpp"

namespace stagecraft {
namespace {

using Effect = MegatronFlag::Effect;
using V = FlagValues;

constexpr MegatronFlag renamed(std::string_view name, std::string_view now, V values = V::one) {
  return {.name = name, .values = values, .same_as = now, .is_old = true};
}
constexpr MegatronFlag old(std::string_view name, V values = V::one) {
  return {.name = name, .values = values, .is_old = true};
}
constexpr MegatronFlag other(std::string_view name,
                             V values,
                             std::string_view instead,
                             std::string_view harmless = {}) {
  return {.name = name,
          .values = values,
          .effect = Effect::other,
          .harmless = harmless,
          .instead = instead};
}

/// The flags that the reader uses, in the order in which a command line is written. A flag without
/// a value ends in !, one with several in *.
constexpr std::string_view read_flags =
    "num-layers hidden-size ffn-hidden-size num-attention-heads kv-channels "
    "group-query-attention! num-query-groups seq-length max-position-embeddings "
    "position-embedding-type use-rotary-position-embeddings! rotary-base tokenizer-type "
    "padded-vocab-size vocab-size make-vocab-size-divisible-by normalization norm-epsilon "
    "swiglu! quick-geglu! squared-relu! disable-bias-linear! add-qkv-bias! qk-layernorm! "
    "untie-embeddings-and-output-weights! hidden-dropout attention-dropout use-flash-attn! "
    "attention-backend no-create-attention-mask-in-dataloader! glu-linear-offset "
    "activation-func-clamp-value softmax-type mtp-num-layers window-size window-attn-skip-freq "
    "multi-latent-attention! q-lora-rank kv-lora-rank qk-head-dim qk-pos-emb-head-dim "
    "v-head-dim fp16! bf16! accumulate-allreduce-grads-in-fp32! num-experts moe-router-topk "
    "moe-ffn-hidden-size moe-shared-expert-intermediate-size moe-shared-expert-gate! "
    "moe-shared-expert-overlap! moe-apply-probs-on-input! moe-layer-freq "
    "moe-router-score-function moe-router-pre-softmax! moe-router-enable-expert-bias! "
    "moe-router-topk-scaling-factor moe-router-num-groups moe-router-group-topk "
    "moe-router-dtype moe-router-load-balancing-type* moe-aux-loss-coeff* moe-z-loss-coeff "
    "moe-grouped-gemm! moe-permute-fusion! moe-token-dispatcher-type moe-enable-deepep! "
    "moe-expert-capacity-factor moe-pad-expert-input-to-capacity! moe-token-drop-policy "
    "expert-model-parallel-size expert-tensor-parallel-size tensor-model-parallel-size "
    "pipeline-model-parallel-size pipeline-model-parallel-layout "
    "num-virtual-stages-per-pipeline-rank num-layers-per-virtual-pipeline-stage "
    "no-scatter-gather-tensors-in-pipeline! decoder-first-pipeline-num-layers "
    "decoder-last-pipeline-num-layers account-for-embedding-in-pipeline-split! "
    "account-for-loss-in-pipeline-split! microbatch-group-size-per-virtual-pipeline-stage "
    "no-overlap-p2p-communication! context-parallel-size cp-comm-type* "
    "hierarchical-context-parallel-sizes* ds-sequence-parallel-size sequence-parallel! "
    "use-distributed-optimizer! overlap-grad-reduce! empty-unused-memory-level micro-batch-size "
    "global-batch-size recompute-activations! recompute-granularity recompute-method "
    "recompute-num-layers recompute-modules* distribute-saved-activations! seed init-method-std "
    "lr adam-beta1 adam-beta2 adam-eps weight-decay clip-grad initial-loss-scale loss-scale "
    "zero-stage step-batch-size-schedule encoder-num-layers encoder-seq-length optimizer "
    "pp-partition-method num-layer-list noop-layers post-norm! context-parallel-algo";

/// Flags of former versions that the reader uses.
constexpr std::array former_flags{
    old("checkpoint-activations", V::none),
    old("checkpoint-num-layers"),
    old("activations-checkpoint-granularity"),
    old("activations-checkpoint-method"),
    old("activations-checkpoint-num-layers"),
    renamed("distribute-checkpointed-activations", "distribute-saved-activations", V::none),
    renamed("model-parallel-size", "tensor-model-parallel-size"),
    renamed("intra-layer-model-parallel-size", "tensor-model-parallel-size"),
    renamed("batch-size", "micro-batch-size"),
    renamed("layernorm-epsilon", "norm-epsilon"),
    renamed("pad-vocab-size-to", "padded-vocab-size"),
    old("num-key-value-heads"),
    renamed("rotary-position-embeddings-theta", "rotary-base"),
    renamed("use-flash-attn-v1", "use-flash-attn", V::none),
    renamed("use-flash-attn-v2", "use-flash-attn", V::none),
    renamed("use-flash-attn-triton", "use-flash-attn", V::none),
    renamed("use-flash-attn-builder", "use-flash-attn", V::none)};

constexpr std::string_view fused = "a fused kernel";
constexpr std::string_view nothing = "nothing";
constexpr std::string_view sixteen = "matrix products in 16 bits";

constexpr std::array other_flags{
    // Mixtures of experts and other architectures.
    other("moe-layer-recompute", V::none, "what --recompute-modules says"),
    other("overlap-moe-expert-parallel-comm", V::none, "exchanges that nothing hides"),
    other("moe-latent-size", V::one, "experts of the model's width"),
    other("is-hybrid-model", V::none, "attention in every layer"),
    other("hybrid-attention-ratio", V::one, "attention in every layer", "0.0"),
    other("hybrid-override-pattern", V::one, "attention in every layer"),
    other("spec", V::many, "Megatron's GPT layers"),
    other("heterogeneous-layers-config-path", V::one, "equal layers"),
    other("retro-add-retriever", V::none, "no retriever"),
    other("qk-l2-norm", V::none, "no norms of queries and keys"),
    other("embed-layernorm", V::none, "no norm of the embedding"),
    other("apply-residual-connection-post-layernorm", V::none, "residuals before the norms"),
    other("no-rope-freq", V::one, "rotary positions in every layer"),
    // Precision of what is stored and of what is multiplied.
    other("fp8-format", V::one, sixteen), other("fp8-hybrid", V::none, sixteen),
    other("fp8-e4m3", V::none, sixteen), other("fp8-param-gather", V::none, sixteen),
    other("fp4-format", V::one, sixteen), other("fp4-param-gather", V::none, sixteen),
    other("fp32-residual-connection", V::none, "residuals in 16 bits"),
    other("fp16-lm-cross-entropy", V::none, "the loss in 32 bits"),
    other("grad-reduce-in-bf16", V::none, "gradients in 32 bits"),
    other("main-grads-dtype", V::one, "gradients in 32 bits", "fp32"),
    other("main-params-dtype", V::one, "the master copy in 32 bits", "fp32"),
    other("exp-avg-dtype", V::one, "Adam's moments in 32 bits", "fp32"),
    other("exp-avg-sq-dtype", V::one, "Adam's moments in 32 bits", "fp32"),
    other("use-precision-aware-optimizer", V::none, "optimizer states in 32 bits"),
    // Parallelism.
    other("use-megatron-fsdp", V::none, "parameters on every replica"),
    other("use-custom-fsdp", V::none, "parameters on every replica"),
    other("use-torch-fsdp2", V::none, "parameters on every replica"),
    other("data-parallel-sharding-strategy",
          V::one,
          "what --use-distributed-optimizer shards",
          "no_shard"),
    other("num-distributed-optimizer-instances", V::one, "one instance", "1"),
    other("force-ds-sequence-parallel", V::none, "whole sequences on every rank"),
    other("ds-sequence-parallel-fpdt", V::none, "whole sequences on every rank"),
    other("cpu-optimizer", V::none, "the optimizer on the device"),
    other("cpu_torch_adam", V::none, "the optimizer on the device"),
    other("checkpoint-in-cpu", V::none, "checkpoints on the device"),
    other("partition-activations", V::none, "whole checkpoints on every rank"),
    other("memory-centric-tiled-linear", V::none, "whole matrix products"),
    other("random-ltd", V::none, "all tokens in every layer"),
    other("data-efficiency-curriculum-learning", V::none, "the whole sequence in every step"),
    other("mup", V::none, "the usual initial weights"),
    other("use-tp-pp-dp-mapping", V::none, "replicas nearer than pipeline stages"),
    other("standalone-embedding-stage", V::none, "the embedding with the first layers"),
    other("tp-comm-overlap",
          V::none,
          "collectives beside products only where Megatron overlaps "
          "them without this flag"),
    other("overlap-param-gather", V::none, "parameters gathered after the step, not overlapped"),
    other("overlap-param-gather-with-optimizer-step",
          V::none,
          "parameters gathered after the step, not overlapped"),
    other("overlap-p2p-communication-warmup-flush", V::none, "transfers that block there"),
    other("use-ring-exchange-p2p", V::none, "plain sends and receives"),
    other("use-mc2",
          V::none,
          "collectives beside products only where Megatron overlaps "
          "them without this flag"),
    other("use-ascend-coc",
          V::none,
          "collectives beside products only where Megatron overlaps "
          "them without this flag"),
    other("variable-seq-lengths", V::none, "sequences of the whole length"),
    other("lora-r", V::one, "all weights trained"),
    other("defer-embedding-wgrad-compute", V::none, "the head's gradient in its place"),
    other("delay-wgrad-compute", V::none, "weight gradients in their place"),
    other("ddp-average-in-collective", V::none, "gradients scaled before they are reduced"),
    other("ddp-reduce-scatter-with-fp32-accumulation", V::none, "gradients reduced in 32 bits"),
    // Memory.
    other("cpu-offloading-num-layers", V::one, "everything on the device", "0"),
    other("cpu-offload", V::none, "everything on the device"),
    other("fine-grained-activation-offloading", V::none, "everything on the device"),
    other("optimizer-cpu-offload", V::none, "everything on the device"),
    other("swap-attention", V::none, "everything on the device"),
    other("swap-optimizer", V::none, "everything on the device"),
    other("reuse-fp32-param", V::none, "parameters in 16 bits beside the master copy"),
    other("recompute-activation-function", V::none, "what --recompute-granularity says"),
    other("recompute-in-advance", V::none, "recompute directly before the backward"),
    other("enable-recompute-layers-per-pp-rank", V::none, "--recompute-num-layers of each chunk"),
    // Kernels.
    other("no-masked-softmax-fusion", V::none, fused), other("no-bias-gelu-fusion", V::none, fused),
    other("no-bias-swiglu-fusion", V::none, fused), other("no-bias-dropout-fusion", V::none, fused),
    other("no-gradient-accumulation-fusion", V::none, fused),
    other("cross-entropy-loss-fusion", V::none, "the loss as separate kernels"),
    other(
        "cuda-graph-impl", V::one, "kernels launched one by one, without pools of graphs", "none"),
    other("enable-cuda-graph", V::none, "kernels launched one by one, without pools of graphs"),
    other("external-cuda-graph", V::none, "kernels launched one by one, without pools of graphs"),
    other("deterministic-mode", V::none, "the usual kernels"), other("yaml-cfg", V::one, nothing),
    other("vision-pretraining", V::none, nothing), other("perform-rl-step", V::none, nothing),
    other("curriculum-learning", V::none, nothing)};

// Flags that change neither memory nor time as they are modelled here.

constexpr std::string_view no_effect_alone =
    "use-mcore-models use-legacy-models openai-gelu apply-layernorm-1p no-position-embedding "
    "no-rope-fusion rotary-interleaved use-rope-scaling no-persist-layer-norm "
    "no-async-tensor-model-parallel-allreduce apply-query-key-layer-scaling "
    "no-query-key-layer-scaling attention-softmax-in-fp32 init-method-xavier-uniform "
    "data-parallel-random-init use-cpu-initialization no-initialization calculate-per-token-loss "
    "no-check-for-nan-in-loss-and-grad check-for-spiky-loss check-for-large-grads manual-gc "
    "no-manual-gc-eval profile use-pytorch-profiler record-memory-history exit-signal-handler "
    "log-params-norm log-num-zeros-in-grad log-throughput log-progress log-energy log-straggler "
    "log-timers-to-tensorboard log-memory-to-tensorboard log-world-size-to-tensorboard "
    "log-validation-ppl-to-tensorboard log-batch-size-to-tensorboard "
    "log-learning-rate-to-tensorboard no-log-learnig-rate-to-tensorboard "
    "no-log-loss-scale-to-tensorboard no-barrier-with-level-1-timing no-one-logger "
    "one-logger-async enable-one-logger disable-straggler-on-startup adlr-autoresume "
    "no-save-optim no-save-rng no-load-optim no-load-rng finetune use-checkpoint-args "
    "use-mp-args-from-checkpoint-args exit-on-missing-checkpoint use-dist-ckpt async-save "
    "auto-detect-ckpt-format ckpt-fully-parallel-save ckpt-fully-parallel-load "
    "no-ckpt-fully-parallel-save ckpt-assume-constant-structure use-persistent-ckpt-worker "
    "load-main-params-from-ckpt no-use-tokenizer-model-from-checkpoint-args "
    "override-lr-scheduler override-opt_param-scheduler override-opt-param-scheduler "
    "use-checkpoint-lr-scheduler use-checkpoint-opt_param-scheduler "
    "use-checkpoint-opt-param-scheduler mock-data no-mmap-bin-files reset-position-ids "
    "reset-attention-mask eod-mask-loss loss-on-targets-only "
    "reweight-loss-based-on-position-frequency "
    "full-validation multiple-validation-sets test-mode skip-train decrease-batch-size-if-needed "
    "legacy-tokenizer trust-remote-code bert-no-binary-head use-mpi no-align-grad-reduce "
    "no-align-param-gather no-gradient-reduce-div-fusion ddp-pad-buckets-for-high-nccl-busbw "
    "disable-gloo-process-groups te-rng-tracker inference-rng-tracker "
    "disable-bf16-reduced-precision-matmul disable-msc inprocess-restart replication "
    "enable-ft-package calc-ft-timeouts enable-experimental sft lazy-loader use-cpu-initialization "
    "disable-tp-comm-overlap-ag disable-tp-comm-overlap-rs disable-tp-comm-bulk-dgrad "
    "disable-tp-comm-bulk-wgrad disable-tp-comm-split-ag disable-tp-comm-split-rs "
    "tp-comm-overlap-rs-dgrad no-fp8-wgrad first-last-layers-bf16 contiguous-buffers-in-ddp "
    "no-contiguous-buffers-in-local-ddp deepspeed deepspeed-activation-checkpointing "
    "no-pipeline-parallel "
    "abort-on-unmet-fused-kernel-constraints no-clone-scatter-output-in-embedding "
    "allow-ambiguous-pad-tokens use-te-activation-func fp32-allreduce universal-checkpoint "
    "log-optimizer-states-to-tensorboard synchronize-each-layer contigious-checkpointing "
    "profile-backward zero-contigious-gradients zero-reduce-scatter use-pin-memory "
    "scattered-embeddings split-transformers create-moe-param-group reset-iteration "
    "load-universal return-data-index eval-fp32 use-wandb distributed-checkpoint "
    "no-log-learning-rate-to-tensorboard use-dataset-only";

constexpr std::string_view no_effect_with_value =
    "rotary-percent rotary-seq-len-interpolation-factor rope-scaling-factor rope-type "
    "transformer-impl fp8-recipe fp8-margin fp8-interval fp8-amax-history-len "
    "fp8-amax-compute-algo num-layers-at-start-in-bf16 num-layers-at-end-in-bf16 onnx-safe "
    "min-lr lr-decay-style lr-decay-iters lr-decay-samples lr-decay-tokens lr-warmup-fraction "
    "lr-warmup-iters lr-warmup-samples lr-warmup-tokens lr-warmup-init warmup lr-wsd-decay-style "
    "lr-wsd-decay-iters lr-wsd-decay-samples decoupled-lr decoupled-min-lr start-weight-decay "
    "end-weight-decay weight-decay-incr-style embedding-init-method-std min-loss-scale "
    "loss-scale-window hysteresis sgd-momentum train-iters train-samples train-tokens "
    "exit-interval exit-duration-in-mins train-sync-interval log-interval timing-log-level "
    "timing-log-option tensorboard-dir tensorboard-log-interval tensorboard-queue-size "
    "wandb-project wandb-entity wandb-exp-name wandb-name wandb-save-dir logging-level "
    "log-path one-logger-project one-logger-run-name app-tag-run-name app-tag-run-version "
    "config-logger-dir straggler-ctrlr-port straggler-minmax-count adlr-autoresume-interval "
    "profile-step-start profile-step-end memory-snapshot-path manual-gc-interval "
    "check-weight-hash-across-dp-replicas-interval save save-interval persistent-save-interval "
    "save-retain-interval load pretrained-checkpoint ckpt-step ckpt-format dist-ckpt-format "
    "ckpt-convert-format ckpt-convert-save dist-ckpt-strictness non-persistent-save-interval "
    "non-persistent-ckpt-type non-persistent-global-ckpt-dir non-persistent-local-ckpt-dir "
    "non-persistent-local-ckpt-algo kill-switch-path eval-iters eval-interval split data-impl "
    "data-cache-path data-args-path per-split-data-args-path train-weighted-split-paths-path "
    "valid-weighted-split-paths-path merge-file vocab-extra-ids tokenizer-model "
    "tokenizer-name-or-path tokenizer-metadata tiktoken-pattern tiktoken-num-special-tokens "
    "num-workers valid-num-workers num-dataset-builder-threads mid-level-dataset-surplus "
    "object-storage-cache-path dataloader-type sample-rate mask-prob short-seq-prob "
    "distributed-backend distributed-timeout-minutes distributed-timeout-seconds-after-init "
    "local_rank local-rank lazy-mpu-init nccl-communicator-config-path ddp-num-buckets "
    "ddp-bucket-size wgrad-deferral-limit pipeline-model-parallel-comm-backend "
    "tp-comm-bootstrap-backend tp-comm-overlap-cfg cross-entropy-fusion-impl cuda-graph-scope "
    "cuda-graph-warmup-steps rerun-mode error-injection-rate "
    "error-injection-type replication-jump replication-factor deepspeed_config "
    "deepspeed-config DDP-impl mtp-loss-scaling-factor rank "
    "sft-tokenizer-prompt-format result-rejected-tracker-filename decoder-seq-length "
    "retriever-seq-length inference-batch-times-seqlen-threshold max-tokens-to-oom "
    "glu-linear-offset activation-func-clamp-value vocab-file "
    "tile-factor zero-reduce-bucket-size zero-allgather-bucket-size remote-device "
    "train-data-exact-num-epochs train-doc-idx-path train-sample-idx-path "
    "train-shuffle-idx-path train-idx-path data-efficiency-curriculum-learning-type "
    "hidden-size-teacher profile-ranks-file exit-signal kill-switch-file aml-data-download-path";

constexpr std::string_view no_effect_with_values =
    "data-path train-data-path valid-data-path test-data-path rampup-batch-size profile-ranks "
    "iterations-to-skip tiktoken-special-tokens high-priority-stream-groups";

/// Those of the flags without effect that only Megatron-LM of 2020 to 2022 has.
constexpr std::array old_names{std::string_view{"DDP-impl"}, std::string_view{"data-impl"},
                               std::string_view{"override-lr-scheduler"},
                               std::string_view{"use-checkpoint-lr-scheduler"},
                               std::string_view{"no-contiguous-buffers-in-local-ddp"}};

using Table = std::map<std::string_view, MegatronFlag>;

void add_names(Table& table, std::string_view names, V values) {
  for (std::string_view const name : split_text(names, " ")) {
    bool const is_old = std::find(old_names.begin(), old_names.end(), name) != old_names.end();
    table[name] = {.name = name, .values = values, .effect = Effect::none, .is_old = is_old};
  }
}

void add_read(Table& table) {
  std::size_t place = 0;
  for (std::string_view name : split_text(read_flags, " ")) {
    V const values = name.ends_with('!') ? V::none : name.ends_with('*') ? V::many : V::one;
    if (values != V::one) name.remove_suffix(1);
    table[name] = {.name = name, .values = values, .place = place++};
  }
}

Table const& table() {
  static Table const all = [] {
    Table flags;
    add_names(flags, no_effect_alone, V::none);
    add_names(flags, no_effect_with_value, V::one);
    add_names(flags, no_effect_with_values, V::many);
    add_names(flags, dialect_flags_alone, V::none);
    add_names(flags, dialect_flags_with_value, V::one);
    add_names(flags, dialect_flags_with_values, V::many);
    for (MegatronFlag const& flag : other_flags) flags[flag.name] = flag;
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
  MegatronFlag const& flag = *find_flag(name);
  return flag.same_as.empty() ? flag.place : find_flag(flag.same_as)->place;
}

std::vector<std::string> flag_names() {
  std::vector<std::string> names;
  for (auto const& [name, flag] : table()) names.push_back("--" + std::string{name});
  return names;
}

}  // namespace stagecraft
