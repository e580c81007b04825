#pragma once

#include <string_view>

namespace stagecraft {

// Flags that only descendants of Megatron-LM have. Those that change neither memory nor time as
// they are modelled here are separated by blanks. Fused kernels are what is modelled anyway.
//
// Source: Ascend/MindSpeed-LLM (mindspeed_llm/features_manager), Ascend/MindSpeed
// (mindspeed/arguments.py), alibaba/Pai-Megatron-Patch (megatron_patch/arguments.py), and
// megatron/arguments.py of Megatron-DeepSpeed of bigscience-workshop, of deepspeedai and of
// HabanaAI, of bigcode-project/Megatron-LM, alibaba/Megatron-LLaMA and
// stanford-futuredata/Megatron-LM, which has megablocks. The effects are judged, not measured.

inline constexpr std::string_view dialect_flags_alone =
    "use-fused-rmsnorm use-fused-swiglu use-fused-rotary-pos-emb use-fused-ring-attention-update "
    "use-fused-moe-token-permute-and-unpermute gemm-gradient-accumulation-fusion "
    "no-shared-storage enable-hf2mg-convert is-instruction-dataset is-pairwise-dataset "
    "tokenizer-not-use-fast disable-gloo-group no-pad-to-seq-lengths norm-target-loss keep-last "
    "no-chat-template use-glm-rope use-llama2-rotary-position-embeddings add-rmsnorm-offset "
    "lora-fusion eval_fp32 reset-progress sync-tp-duplicated-parameters";

inline constexpr std::string_view dialect_flags_with_value =
    "handler-name model-type-hf patch-tokenizer-type extra-vocab-size max-padding-length "
    "prompt-type ai-framework dataset epochs rope-scaling-type "
    "rope-scaling-original-max-position-embeddings rope-scaling-mscale "
    "rope-scaling-mscale-all-dim beta-fast beta-slow high-freq-factor low-freq-factor "
    "original-max-position-embeddings rotary-scaling-factor rotary-scale-factor "
    "partial-rotary-factor lora-alpha attention-mask-type shape-order fix-sub-seq-length "
    "hccl-op-mode schedules-method tokenizer-prompt-format";

inline constexpr std::string_view dialect_flags_with_values =
    "task task-data-path train-data valid-data lora-target-modules train-weighted-split-paths "
    "valid-weighted-split-paths test-weighted-split-paths data-path2 skip-train-iteration-range "
    "compress-ratios";

/// As the flags of Megatron-LM are marked: ! without a value.
inline constexpr std::string_view dialect_flags_of_programs =
    "use-cp-send-recv-overlap! fix-router! mla-fa-without-pad! dist-url padded-samples! train-mode "
    "transformer-type tokenizer-file tokenizer-padding-side wandb-project-name wandb-entity-name "
    "structured-logs! structured-logs-dir no-load-lr-state! query-pre-attn-scalar workers "
    "repeated-dataloader! enable-thinking kv-head-repeat-before-uly-alltoall! use-bridge! "
    "bridge-hf-model bridge-language-model-only! no-shuffle! swap-optimizer-times log-level "
    "log-level-replica codecarbon-dir longrope-freqs-type short-factor long-factor short-mscale "
    "long-mscale pad-to-multiple-of cp-attention-mask-type trigger-path fsdp2-config-path "
    "moe-model-type enable-mg2hf-convert! mg-save-dir hf-cfg-dir output-prefix max-new-tokens "
    "profile-save-path profile-record-shapes! profile-level profile-with-cpu! "
    "enable-high-availability! enable-hbmfault-repair! optimization-level ema-decay "
    "op-cal-tflops! coc-parallel-num use-fusion-attn-v2! alibi-fusion-attn-type "
    "hccl-group-buffer-adaptive! pipe-experts-multi-stream! "
    "pipe-experts-multi-data enable-token-rearrange-opt! verify-checkpoint! "
    "verify-checkpoint-model-type dynamic-factor sparse-mode fill-neg-inf! square-alibi-mask! "
    "lora-ckpt-filter! lu-lora-lr lu-lora-lr-ratio lu-lora-final-layer-index "
    "enable-share-memory! init-norm-weight-in-fp32! use-sparse-flash-attn! "
    "use-fused-lightning-indexer! use-fused-lightning-indexer-loss! index-n-heads index-head-dim "
    "index-topk index-topk-freq index-topk-pattern index-skip-topk-offset "
    "index-share-for-mtp-iteration! indexer-loss-coeff scale-fmt max-batch-size original-seq-len "
    "compress-rope-theta rope-theta rope-factor hc-mult hc-sinkhorn-iters hc-eps use-fused-mhc! "
    "use-triton-mhc! o-groups shared-expert-gate-output-dimension recompute-norm-num-layers "
    "recompute-activation-function-num-layers moe-zero-memory-num-layers tp-x tp-y "
    "num-layers-teacher num-attention-heads-teacher hidden-size-teacher num-experts-teacher "
    "load-teacher kd-alpha-ce kd-beta-ce kd-temp moe-eval-capacity-factor moe-min-capacity "
    "disable-moe-top2-2nd-expert-sampling! moe-lbl-in-fp32 loss-chunk-size "
    "context-parallel-cache-interval enable-zbh1-exact-semantics! world-size causal-lm! job-name "
    "source-seq-len target-seq-len generation-length dataset-provider model-provider mtp-spec* "
    "apply-rope-no-in-complex! no-use-sparse-c8-indexer! cut-max-seqlen! combined-1f1b-recipe "
    "measure-activation-memory! ds-sequence-parallel-fpdt-chunk-size "
    "ds-sequence-parallel-fpdt-offloading! use-multiparameter-pipeline-model-parallel!";

// Their flags that change memory or time and are not modelled, in rows as Megatron-LM's are
// (megatron_effects.hpp).
inline constexpr std::string_view effects_of_dialects = R"(
full-attention-interval=0 | program | linear attention in most layers | attention over all tokens before
layerwise-disaggregated-training! | program | split between two sites | ranks of one kind, all near
eval-only | program | an evaluation | a step of training
no-train | program | an evaluation | a step of training
patch-size | program | a model of images | a model of text
disable-vision-class-token! | program | a model of images | a model of text
deepspeed-config | large | less memory | no parameters, gradients or state shared, as without --zero-stage
deepspeed_config | large | less memory | no parameters, gradients or state shared, as without --zero-stage
stage=sft | large | more time and memory | training on one text, without a second model
dpo-loss-type | large | more time and memory | training on one text, without a second model
kd! | large | more time and memory | a step without a teacher
mos! | large | more time and memory | a step without a teacher
bitfit! | large | less time and memory | all weights trained
neat-pack! | large | less time | attention to the whole sequence
pack! | large | less time | attention to the whole sequence
npu-deterministic! | large | more time | the usual kernels
use-alibi-mask! | large | more time and memory | positions without a bias of attention
position-encoding-2d! | small | either way | positions in one dimension
input-embeds-norm! | small | more time | no factor of the embedding
add-dense-bias! | small | more time and memory | an output projection without a bias
add-output-layer-bias! | small | more time and memory | a head without a bias
disable-bias-linear-fc! | small | less time and memory | products with biases
disable-bias-attn-fc! | small | less time and memory | products with biases
enable-mla-scale-q-lora! | small | more time | latents without a factor
enable-mla-scale-kv-lora! | small | more time | latents without a factor
mla-mm-split! | small | either way in time | each up-projection as one product
mla-up-proj-tp-overlap! | large | less time | collectives that nothing hides
mla-swap-core-attn-out! | large | less memory, more time | everything on the device
recompute-mla-up-proj! | large | less memory, more time | what --recompute-granularity says
recompute-norm! | large | less memory, more time | what --recompute-granularity says
recompute-in-bubble! | large | either way | recompute directly before the backward
mtp-mem-efficient-logits! | large | less memory | logits of all modules at once | mtp-num-layers
loss-compute-mode=default | large | less memory | logits of the whole sequence at once
output-logit-softcapping | large | more time and memory | logits without a cap
attn-logit-softcapping | large | more time | scores without a cap
interleave-sliding-window | small | either way in time | attention over all tokens before
sliding-window-size | large | less time | attention over all tokens before
cla-share-factor=1 | large | less memory | keys and values of each layer
share-kvstates! | large | less memory | keys and values of each layer
enable-mla-absorb! | large | either way | up-projections as products of their own
use-qk-norm! | small | more time and memory | no norms of queries and keys
embedding-multiplier-scale=1.0 | small | more time | no factor of the embedding
output-multiplier-scale=1.0 | small | more time | no factor of the logits
swiglu-limit | small | more time | an activation without a limit
output-layer-slice-num=1 | large | less memory | logits of the whole vocabulary at once
sliding-window | large | less time | attention over all tokens before
enable-dsa-indexer! | large | either way | attention over all tokens before
kv-compress! | large | less time and memory | attention over all tokens before
o-lora-rank | large | either way | an output projection without latents
enable-mhc! | large | more time and memory | one residual stream
seq-aux! | small | either way in time | the loss that --moe-router-load-balancing-type says | num-experts
moe-comm-aux-loss-coeff | small | more time | the loss that --moe-router-load-balancing-type says | num-experts
moe-device-level-aux-loss-coeff | small | more time | the loss that --moe-router-load-balancing-type says | num-experts
input-jitter! | small | more time and memory | inputs of the router without noise | num-experts
use-intra-ep! | large | either way in time | expert ranks in the usual order | num-experts
num-zero-experts=0 | large | less time | experts that all compute | num-experts
n-hash-layers=0 | small | less time | a router in every sparse layer | num-experts
moe-permutation-async-comm! | large | less time | exchanges that nothing hides | num-experts
moe-alltoall-overlap-comm! | large | less time | exchanges that nothing hides | num-experts
moe-allgather-overlap-comm! | large | less time | exchanges that nothing hides | num-experts
moe-fb-overlap! | large | less time | exchanges that nothing hides | num-experts
use-pipe-experts! | large | less time | exchanges that nothing hides | num-experts
overlap-ep-comm-with-split-attn! | large | less time | exchanges that nothing hides | num-experts
moe-zero-memory=disable | large | less memory, more time | activations of experts as they are | num-experts
moe-unperm2-mem-optim! | large | less memory | activations of experts as they are | num-experts
moe-zerc! | large | less time and memory | experts that wait for their tokens | num-experts
moe-use-megatron-switch | large | more time | experts in one product | num-experts
use-ascend-mc2! | large | less time | collectives beside products only where Megatron overlaps them without this flag
coc-fused-kernel! | large | less time | collectives beside products only where Megatron overlaps them without this flag | use-ascend-coc
enable-overlap-ag-with-matmul! | large | less time | collectives beside products only where Megatron overlaps them without this flag
enable-overlap-matmul-with-rs! | large | less time | collectives beside products only where Megatron overlaps them without this flag
enable-backward-overlap-ag-with-matmul! | large | less time | collectives beside products only where Megatron overlaps them without this flag
use-quantize-comm! | large | less time | messages in 16 bits
tp-2d! | large | either way | tensor parallelism in one dimension
ulysses-degree-in-cp | large | either way in time | one method for all ranks of a sequence | context-parallel-size
use-ulysses-allgather-kv! | large | either way in time | heads of keys and values exchanged | context-parallel-size
cp-window-size=1 | small | either way in time | a ring of one level | context-parallel-size
context-parallel-kv-cache-policy | large | more memory, less time | keys and values sent again for the backward | context-parallel-size
enable-zbh1-pipeline! | large | less time | 1F1B
enable-zb-runtime! | large | less time | 1F1B
combined-1f1b! | large | less time | 1F1B
optimizer-selection=fused_adamw | large | either way | Adam
o2-optimizer! | large | less memory | moments in 32 bits
o2-gradient! | large | less memory | gradients in 32 bits
use-bnb-optimizer! | large | less memory | moments in 32 bits
reduce-bucket-size | small | either way in time | buckets of the usual size
fp8-reuse-quantized-weight! | large | less time | weights quantised for each microbatch | fp8-format
use-torch-compile=false | large | less time | kernels that nothing fuses further
)";

}  // namespace stagecraft
