#pragma once

#include <string_view>

namespace stagecraft {

// Flags that only descendants of Megatron-LM have and that change neither memory nor time as they
// are modelled here, separated by blanks. Fused kernels are what is modelled anyway.
//
// Source: Ascend/MindSpeed-LLM (mindspeed_llm/training/arguments.py), alibaba/Pai-Megatron-Patch
// (megatron_patch/arguments.py), bigscience-workshop/Megatron-DeepSpeed (megatron/arguments.py).

inline constexpr std::string_view dialect_flags_alone =
    "use-fused-rmsnorm use-fused-swiglu use-fused-rotary-pos-emb use-fused-ring-attention-update "
    "use-fused-moe-token-permute-and-unpermute gemm-gradient-accumulation-fusion "
    "no-shared-storage enable-hf2mg-convert is-instruction-dataset is-pairwise-dataset "
    "tokenizer-not-use-fast disable-gloo-group no-pad-to-seq-lengths norm-target-loss keep-last "
    "no-chat-template use-glm-rope use-llama2-rotary-position-embeddings add-rmsnorm-offset "
    "lora-fusion eval_fp32 reset-progress sync-tp-duplicated-parameters";

inline constexpr std::string_view dialect_flags_with_value =
    "handler-name model-type-hf patch-tokenizer-type extra-vocab-size max-padding-length "
    "prompt-type stage ai-framework dataset epochs rope-scaling-type "
    "rope-scaling-original-max-position-embeddings rope-scaling-mscale "
    "rope-scaling-mscale-all-dim beta-fast beta-slow high-freq-factor low-freq-factor "
    "original-max-position-embeddings rotary-scaling-factor rotary-scale-factor "
    "partial-rotary-factor lora-alpha attention-mask-type shape-order fix-sub-seq-length "
    "hccl-op-mode schedules-method tokenizer-prompt-format";

inline constexpr std::string_view dialect_flags_with_values =
    "task task-data-path train-data valid-data lora-target-modules";

}  // namespace stagecraft
