#pragma once

#include <array>
#include <string_view>

namespace stagecraft {

/// A setting of Megatron's configuration classes that is not called as its flag is.
struct ConfigName {
  enum class Says : std::uint8_t {
    value,    ///< the value of the flag
    is_set,   ///< true: the flag is given
    is_left,  ///< false: the flag is given
  };
  std::string_view name;  ///< as run files have it
  std::string_view flag;  ///< without dashes
  Says says = Says::value;
};

/// Source: megatron/core/transformer/transformer_config.py, model_parallel_config.py,
/// distributed_data_parallel_config.py and training/arguments.py at d98e8a64; Megatron-Bridge's
/// mixed_precision.py and GPTDatasetConfig; the arguments of ms-swift and verl.
inline constexpr std::array config_names{
    ConfigName{"num_moe_experts", "num-experts"},
    ConfigName{"layernorm_epsilon", "norm-epsilon"},
    ConfigName{"sequence_length", "seq-length"},
    ConfigName{"max_length", "seq-length"},
    ConfigName{"virtual_pipeline_model_parallel_size", "num-virtual-stages-per-pipeline-rank"},
    ConfigName{"num_layers_in_first_pipeline_stage", "decoder-first-pipeline-num-layers"},
    ConfigName{"num_layers_in_last_pipeline_stage", "decoder-last-pipeline-num-layers"},
    ConfigName{"fp8", "fp8-format"},
    ConfigName{"fp4", "fp4-format"},
    ConfigName{"bucket_size", "ddp-bucket-size"},
    ConfigName{"qk_pos_emb_head_dim", "qk-pos-emb-head-dim"},
    ConfigName{"ppo_micro_batch_size_per_gpu", "micro-batch-size"},
    ConfigName{"ppo_mini_batch_size", "global-batch-size"},
    ConfigName{"expert_parallel_size", "expert-model-parallel-size"},
    ConfigName{"fp8_param", "fp8-param-gather", ConfigName::Says::is_set},
    ConfigName{"fp4_param", "fp4-param-gather", ConfigName::Says::is_set},
    ConfigName{"gated_linear_unit", "swiglu", ConfigName::Says::is_set},
    ConfigName{"average_in_collective", "ddp-average-in-collective", ConfigName::Says::is_set},
    ConfigName{"cpu_offloading", "cpu-offload", ConfigName::Says::is_set},
    ConfigName{"use_te_rng_tracker", "te-rng-tracker", ConfigName::Says::is_set},
    ConfigName{"grad_reduce_in_fp32", "grad-reduce-in-bf16", ConfigName::Says::is_left},
    ConfigName{"add_bias_linear", "disable-bias-linear", ConfigName::Says::is_left},
    ConfigName{"share_embeddings_and_output_weights", "untie-embeddings-and-output-weights",
               ConfigName::Says::is_left},
    ConfigName{"apply_rope_fusion", "no-rope-fusion", ConfigName::Says::is_left},
    ConfigName{"overlap_p2p_comm", "no-overlap-p2p-communication", ConfigName::Says::is_left},
    ConfigName{"bias_activation_fusion", "no-bias-gelu-fusion", ConfigName::Says::is_left},
    ConfigName{"bias_gelu_fusion", "no-bias-gelu-fusion", ConfigName::Says::is_left},
    ConfigName{"bias_swiglu_fusion", "no-bias-swiglu-fusion", ConfigName::Says::is_left},
    ConfigName{"should_pad_vocab", "no-pad-vocab-size", ConfigName::Says::is_left}};

/// Settings that are no flags and change neither memory nor time as they are modelled, or that say
/// what other settings say too.
inline constexpr std::array<std::string_view, 40> idle_config_names{
    "activation_func",
    "async_tensor_model_parallel_allreduce",
    "autocast_dtype",
    "barrier_with_L1_time",
    "batch_p2p_comm",
    "batch_p2p_sync",
    "cuda_graph_retain_backward_graph",
    "cuda_graph_use_single_mempool",
    "deallocate_pipeline_outputs",
    "enable_autocast",
    "fp8_dot_product_attention",
    "fp8_multi_head_attention",
    "fused_single_qkv_rope",
    "memory_efficient_layer_norm",
    "moe_router_topk_limited_devices",
    "moe_token_dropping",
    "perform_initialization",
    "pipeline_dtype",
    "scatter_embedding_sequence_parallel",
    "seq_len_interpolation_factor",
    "softmax_scale",
    "sequence_parallel_size",
    "tp_comm_atomic_ag",
    "tp_comm_atomic_rs",
    "tp_only_amax_red",
    "use_cpu_initialization",
    "use_te",
    "work_group",
    "user_name",
    "exp_name",
    "workspace",
    "framework",
    "hf_path",
    "tensorboard_dir",
    "save_safetensors",
    "load_safetensors",
    "dataset_num_proc",
    "split_dataset_ratio",
    "max_epochs",
    "tuner_type"};

/// Sections of run files whose other keys change neither memory nor time.
inline constexpr std::array<std::string_view, 20> idle_sections{
    "checkpoint",          "dataset", "dist",           "data",        "ft",
    "inprocess_restart",   "logger",  "nvrx_straggler", "platform",    "profiling",
    "rerun_state_machine", "rng",     "scheduler",      "straggler",   "tensor_inspect",
    "tokenizer",           "trainer", "validation",     "exp_manager", "algorithm"};

/// Sections of other models and programs beside the one that is trained.
inline constexpr std::array<std::string_view, 5> other_sections{"rollout", "ref", "critic",
                                                                "reward_model", "reward"};

}  // namespace stagecraft
