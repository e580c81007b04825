#pragma once

#include <string_view>

namespace stagecraft {

// The flags of Megatron-LM that change memory or time and are not modelled, a row each:
//
//     name | effect | which way | what is modelled instead | flags of which it needs one
//
// A name without a value ends in !, one with several in *; =VALUE is the value without effect.
// small: below 1 % of time and of bytes; large: more, or perhaps more; program: the run is another
// kind of program. A flag without one of those that it needs changes nothing.
//
// Source of the names: NVIDIA/Megatron-LM at d98e8a64 (arguments.py, the dataclasses of which it
// makes flags) and its releases since core 0.8; MindSpeed-LLM, Megatron-DeepSpeed. The effects are
// judged by what each flag does there; they were not measured.

inline constexpr std::string_view effects_of_model = R"(
is-hybrid-model! | program | a hybrid model | attention in every layer
hybrid-attention-ratio=0.0 | program | a hybrid model | attention in every layer
hybrid-mlp-ratio=0.0 | program | a hybrid model | attention in every layer
hybrid-override-pattern | program | a hybrid model | attention in every layer
hybrid-layer-pattern | program | a hybrid model | attention in every layer
mtp-hybrid-override-pattern | program | a hybrid model | attention in every layer
experimental-attention-variant | program | linear or sparse attention | attention over all tokens before
heterogeneous-layers-config-path | program | a model of unequal layers | equal layers
heterogeneous-layers-config-encoded-json | program | a model of unequal layers | equal layers
retro-add-retriever! | program | a model with retrieval | no retriever
decoder-num-layers | program | an encoder and a decoder | a decoder alone
encoder-tensor-model-parallel-size=0 | program | an encoder and a decoder | a decoder alone
encoder-pipeline-model-parallel-size=0 | program | an encoder and a decoder | a decoder alone
pipeline-model-parallel-split-rank | program | an encoder and a decoder | a decoder alone
vision-pretraining! | program | a model of images | a model of text
perform-rl-step! | program | reinforcement learning | a step of pretraining
export-kd-cfg | program | distillation | no teacher
export-kd-teacher-load | program | distillation | no teacher
teacher-model-config | program | distillation | no teacher
logits-load-dir | program | distillation | no teacher
export-num-medusa-heads=0 | program | speculative decoding | one head
export-num-eagle-layers=0 | program | speculative decoding | one head
skip-train! | program | an evaluation | a step of training
yaml-cfg | program | the run of another file, which --yaml FILE reads | nothing of that file
freeze-all-layers! | large | less time and memory | all weights trained
freeze-base-for-mtp! | large | less time and memory | all weights trained
lora-r | large | less time and memory | all weights trained
enable-mhc-connections! | large | more time and memory | one residual stream
attention-output-gate! | large | more time and memory | attention without a gate
spec* | large | either way | Megatron's GPT layers
qk-l2-norm! | large | more time and memory | no norms of queries and keys
export-qk-l2-norm! | large | more time and memory | no norms of queries and keys
enable-gpt-oss! | large | either way | the model that the other flags say
embed-layernorm! | small | more time and memory | no norm of the embedding
apply-residual-connection-post-layernorm! | small | either way | residuals before the norms
no-rope-freq | small | less time | rotary positions in every layer
mtp-use-repeated-layer! | large | less memory | modules of prediction with weights of their own | mtp-num-layers
mtp-hsm! | large | more time and memory | modules of prediction that read one state | mtp-num-layers
mtp-detach-heads! | small | less time | gradients from all losses | mtp-num-layers
moe-latent-size | large | less time and memory | experts of the model's width | num-experts
moe-router-force-biased | large | more time | balanced routing | num-experts
moe-input-jitter-eps | small | more time and memory | inputs of the router without noise | num-experts
output-logit-dtype | large | either way | logits of the model's type
fp32-residual-connection! | large | more time and memory | residuals in 16 bits
fp16-lm-cross-entropy! | large | less memory | the loss in 32 bits
curriculum-learning! | large | less time | the whole sequence in every step
data-efficiency-curriculum-learning! | large | less time | the whole sequence in every step
random-ltd! | large | less time and memory | all tokens in every layer
variable-seq-lengths! | large | less time and memory | sequences of the whole length
sft! | large | less time | attention to the whole sequence
dataloader-inter-document-masking! | large | less time | attention to the whole sequence
hybrid-context-parallel! | large | either way | sequences of equal length
max-seqlen-per-dp-cp-rank | large | either way | sequences of equal length
)";

inline constexpr std::string_view effects_of_precision = R"(
disable-fp8-wgrad! | large | more time | gradients of weights from products in 8 bits | fp8-format fp8-hybrid fp8-e4m3
te-precision-config-file | large | less time | matrix products in 16 bits
kitchen-config-file | large | less time | matrix products in 16 bits
kitchen-recipe-number | large | less time | matrix products in 16 bits
export-quant-cfg | large | more time and memory | products that nothing rounds
main-params-dtype=fp32 | large | less memory | the master copy in 32 bits | use-precision-aware-optimizer
moe-dispatch-fwd-dtype=bf16 | large | less time | tokens in 16 bits on their way | num-experts
moe-combine-bwd-dtype=bf16 | large | less time | gradients of tokens in 16 bits on their way | num-experts
moe-router-padding-for-fp8! | small | more time and memory | rows as they are | num-experts
moe-router-padding-for-quantization! | small | more time and memory | rows as they are | num-experts
ddp-param-name-patterns-for-fp32-local-accumulation* | large | more memory | gradients of one type
ddp-reduce-scatter-with-fp32-accumulation! | large | more time and memory | gradients summed as NCCL does
)";

inline constexpr std::string_view effects_of_sharding = R"(
use-custom-fsdp! | large | less memory, more time | parameters on every replica
use-torch-fsdp2! | large | less memory, more time | parameters on every replica
outer-dp-sharding-strategy=no_shard | large | less memory | replicas that share nothing out | use-megatron-fsdp
enable-full-sharding-in-hsdp! | large | less memory, more time | replicas that share nothing out | use-megatron-fsdp
fsdp-double-buffer! | large | more memory | buffers that the allocator makes | use-megatron-fsdp
fsdp-db-use-persist-buf-on-alloc-fail! | large | more memory | buffers that the allocator makes | use-megatron-fsdp
megatron-fsdp-max-pool-double-buffer! | large | more memory | buffers that the allocator makes | use-megatron-fsdp
megatron-fsdp-enable-fine-grained-param-gather! | large | less time | gathers of one layer ahead | use-megatron-fsdp
fsdp-manual-registration! | large | less time | buffers that NCCL copies | use-megatron-fsdp
suggested-communication-unit-size | large | either way | gathers of one layer ahead | use-megatron-fsdp
keep-fp8-transpose-cache! | large | more memory | matrix products in 16 bits | use-megatron-fsdp
keep-fp8-transpose-cache-when-using-custom-fsdp! | large | more memory | matrix products in 16 bits | use-custom-fsdp
create-all-gather-group! | large | less time | gathers and reductions in turn
torch-fsdp2-no-reshard-after-forward! | large | more memory, less time | parameters on every replica | use-torch-fsdp2
num-distributed-optimizer-instances=1 | large | more memory, less time | one instance
tensor-parallel-num-weight-shards | large | less memory, more time | weights that only the tensor group splits
expert-tensor-parallel-num-weight-shards | large | less memory, more time | weights that only the tensor group splits
gtp-remat-reduce-scatter-with-fp32-accumulation! | large | more time and memory | gradients summed as NCCL does | tensor-parallel-num-weight-shards expert-tensor-parallel-num-weight-shards
gtp-remat-opt-in-modules* | large | less memory, more time | weights that only the tensor group splits | tensor-parallel-num-weight-shards expert-tensor-parallel-num-weight-shards
gtp-remat-nccl-ub! | large | less time | buffers that NCCL copies | tensor-parallel-num-weight-shards
gtp-expert-remat-nccl-ub! | large | less time | buffers that NCCL copies | expert-tensor-parallel-num-weight-shards
cpu-offload! | large | less memory, more time | everything on the device
delta-offload-bytes-across-pp-ranks=0 | large | more memory, less time | stages that offload alike | fine-grained-activation-offloading
fine-grained-offloading-max-inflight-offloads | small | less memory, more time | copies that nobody waits for | fine-grained-activation-offloading
min-offloaded-tensor-size=1048576 | small | either way | tensors of 1,048,576 elements and more | fine-grained-activation-offloading
optimizer-cpu-offload! | large | less memory, more time | everything on the device
cpu-offloading-weights! | large | less memory, more time | weights on the device | cpu-offloading-num-layers
cpu-optimizer! | large | less memory, more time | the optimizer on the device
cpu_torch_adam! | large | less memory, more time | the optimizer on the device
checkpoint-in-cpu! | large | less memory, more time | checkpoints on the device
partition-activations! | large | less memory, more time | whole checkpoints on every rank
swap-attention! | large | less memory, more time | everything on the device
swap-optimizer! | large | less memory, more time | everything on the device
reuse-fp32-param! | large | less memory | parameters in 16 bits beside the master copy
moe-paged-stash! | large | less memory, more time | activations of experts as they are | num-experts
recompute-activation-function! | large | less memory, more time | what --recompute-granularity says
recompute-in-advance! | large | either way | recompute directly before the backward
enable-recompute-layers-per-pp-rank! | large | more memory, less time | --recompute-num-layers of each chunk
mlp-chunks-for-training=1 | large | less memory, more time | whole matrix products
memory-centric-tiled-linear! | large | less memory, more time | whole matrix products
)";

inline constexpr std::string_view effects_of_communication = R"(
use-tp-pp-dp-mapping! | large | either way in time | replicas nearer than pipeline stages
force-ds-sequence-parallel! | large | less memory | whole sequences on every rank
ds-sequence-parallel-fpdt! | large | less memory | whole sequences on every rank
standalone-embedding-stage! | large | either way | the embedding with the first layers
tp-comm-overlap! | large | less time | collectives beside products only where Megatron overlaps them without this flag
use-mc2! | large | less time | collectives beside products only where Megatron overlaps them without this flag
use-ascend-coc! | large | less time | collectives beside products only where Megatron overlaps them without this flag
symmetric-ar-type | large | less time | NCCL's all-reduces
overlap-param-gather! | large | less time | parameters gathered after the step, not overlapped | use-distributed-optimizer
overlap-param-gather-with-optimizer-step! | large | less time | parameters gathered after the step, not overlapped | use-distributed-optimizer
delay-param-gather! | small | either way in time | parameters gathered after the step, not overlapped | overlap-param-gather
no-delay-grad-reduce! | small | either way in time | reductions of each stage as its gradients are ready | overlap-grad-reduce
ddp-num-buckets | large | either way in time | buckets of Megatron's own size | overlap-grad-reduce
ddp-average-in-collective! | small | less time | gradients scaled before they are reduced
overlap-p2p-communication-warmup-flush! | large | less time | transfers that block there
use-ring-exchange-p2p! | large | either way in time | plain sends and receives
pipeline-model-parallel-comm-backend=nccl | large | either way in time | NCCL's sends and receives
fake-process-group! | large | less time | collectives of all ranks
use-sharp! | large | less time | collectives that the network does not sum
use-nccl-ub! | large | less time | buffers that NCCL copies
overlap-dispatch-backward-with-experts-wgrad! | large | less time | exchanges that nothing hides | num-experts
ep-overlap-early-attn-memory-release! | large | less memory | activations of attention until their backward | overlap-moe-expert-parallel-comm
high-priority-a2a-comm-stream! | large | less time | exchanges of the usual priority | overlap-moe-expert-parallel-comm
delay-wgrad-compute! | large | less time | weight gradients in their place | overlap-moe-expert-parallel-comm
defer-embedding-wgrad-compute! | large | less time, more memory | the head's gradient in its place
moe-hybridep-num-sms | large | either way in time | DeepEP with its own number of multiprocessors | num-experts
moe-hybridep-num-blocks-permute | large | either way in time | DeepEP with its own number of multiprocessors | num-experts
moe-hybridep-num-blocks-unpermute | large | either way in time | DeepEP with its own number of multiprocessors | num-experts
moe-hybridep-num-sms-preprocessing | small | either way in time | DeepEP with its own number of multiprocessors | num-experts
moe-hybridep-pad-uneven-dispatch-inputs! | small | more time and memory | rows as they are | num-experts
moe-permute-fusion-into-hybridep! | large | less time and memory | permutations as kernels of their own | num-experts
moe-ncclep-static-shape! | large | more time and memory | rows as they are | num-experts
moe-ncclep-zero-copy! | large | less time | buffers that NCCL copies | num-experts
moe-expert-rank-capacity-factor | large | either way | rows as they are | num-experts
)";

inline constexpr std::string_view effects_of_kernels = R"(
no-masked-softmax-fusion! | large | more time and memory | a fused kernel
no-bias-gelu-fusion! | large | more time and memory | a fused kernel
no-bias-swiglu-fusion! | large | more time and memory | a fused kernel
no-bias-dropout-fusion! | large | more time and memory | a fused kernel
no-gradient-accumulation-fusion! | large | more time and memory | a fused kernel
disable-jit-fuser! | large | more time and memory | a fused kernel
no-rope-fusion! | large | more time and memory | a fused kernel
cross-entropy-loss-fusion! | large | less time and memory | the loss as separate kernels
fused-residual-rmsnorm! | small | less time | norms and residuals as separate kernels
mla-down-proj-fusion! | small | less time | down-projections as separate kernels | multi-latent-attention
use-transformer-engine-op-fuser! | large | less time and memory | operations as Transformer Engine's modules have them
use-grouped-gemm-for-dense-mlp! | large | less time | plain matrix products
use-grouped-gemm-for-shared-expert! | large | less time | plain matrix products | num-experts
use-fused-weighted-squared-relu! | large | less time and memory | the activation as separate kernels | num-experts
moe-router-fusion! | large | less time | the router as separate kernels | num-experts
moe-use-legacy-grouped-gemm! | large | either way | Transformer Engine's grouped products | num-experts
moe-use-grouped-tensor! | large | either way | Transformer Engine's grouped products | num-experts
moe-single-grouped-weight! | small | either way in time | a weight per expert | num-experts
moe-single-grouped-bias! | small | either way in time | a bias per expert | num-experts
moe-extended-tp! | large | either way | --expert-tensor-parallel-size | num-experts
moe-enable-routing-replay! | small | more memory | routing that is not kept | num-experts
moe-routing-trace-path | large | more time | routing that nothing writes | num-experts
use-kitchen-attention! | large | either way | Transformer Engine's attention
flash-attention-version | large | either way in time | the system's flash attention
log-max-attention-logit! | small | more time | logits that nothing keeps
qk-clip! | small | more time | logits that nothing keeps
batch-invariant-mode! | large | more time | the usual kernels
cuda-graph-impl=none | large | less time, more memory | kernels launched one by one, without pools of graphs
enable-cuda-graph! | large | less time, more memory | kernels launched one by one, without pools of graphs
external-cuda-graph! | large | less time, more memory | kernels launched one by one, without pools of graphs
optimizer-cuda-graph! | large | less time, more memory | kernels launched one by one, without pools of graphs
logits-save-dir | large | more time and memory | logits that nothing writes
)";

}  // namespace stagecraft
