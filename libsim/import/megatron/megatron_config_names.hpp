#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace stagecraft {

/// A setting of Megatron's configuration classes that is not called as its flag is.
struct ConfigName {
  enum class Says : std::uint8_t {
    value,    ///< the value of the flag
    is_set,   ///< true: the flag is given
    is_left,  ///< false: the flag is given
    is_zero,  ///< false: the flag's value is 0, wherever the file has it
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
    ConfigName{"microbatch_group_size_per_vp_stage",
               "microbatch-group-size-per-virtual-pipeline-stage"},
    ConfigName{"param_name_patterns_for_fp32_local_accumulation",
               "ddp-param-name-patterns-for-fp32-local-accumulation"},
    ConfigName{"ppo_micro_batch_size_per_gpu", "micro-batch-size"},
    ConfigName{"ppo_mini_batch_size", "global-batch-size"},
    ConfigName{"expert_parallel_size", "expert-model-parallel-size"},
    ConfigName{"fp8_param", "fp8-param-gather", ConfigName::Says::is_set},
    ConfigName{"fp4_param", "fp4-param-gather", ConfigName::Says::is_set},
    ConfigName{"gated_linear_unit", "swiglu", ConfigName::Says::is_set},
    ConfigName{"average_in_collective", "ddp-average-in-collective", ConfigName::Says::is_set},
    ConfigName{"pad_buckets_for_high_nccl_busbw", "ddp-pad-buckets-for-high-nccl-busbw",
               ConfigName::Says::is_set},
    ConfigName{"reduce_scatter_with_fp32_accumulation", "ddp-reduce-scatter-with-fp32-accumulation",
               ConfigName::Says::is_set},
    ConfigName{"nccl_ub", "use-nccl-ub", ConfigName::Says::is_set},
    ConfigName{"overlap_p2p_comm_warmup_flush", "overlap-p2p-communication-warmup-flush",
               ConfigName::Says::is_set},
    ConfigName{"layernorm_zero_centered_gamma", "apply-layernorm-1p", ConfigName::Says::is_set},
    ConfigName{"use_te_rng_tracker", "te-rng-tracker", ConfigName::Says::is_set},
    ConfigName{"grad_reduce_in_fp32", "grad-reduce-in-bf16", ConfigName::Says::is_left},
    ConfigName{"grad_reduce_in_fp32", "accumulate-allreduce-grads-in-fp32",
               ConfigName::Says::is_set},
    ConfigName{"cpu_offloading", "cpu-offloading-num-layers", ConfigName::Says::is_zero},
    ConfigName{"cpu_offloading_activations", "cpu-offloading-num-layers",
               ConfigName::Says::is_zero},
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
inline constexpr std::string_view idle_config_names =
    "activation_func add_position_embedding async_tensor_model_parallel_allreduce "
    "auto_continue_train autocast_dtype barrier_with_L1_time batch_p2p_comm batch_p2p_sync "
    "check_for_nan_in_grad check_optimizer_step_success config "
    "cpu_offloading_double_buffering cuda_graph_retain_backward_graph "
    "cuda_graph_use_single_mempool data_parallel_size dataset_num_proc "
    "deallocate_pipeline_outputs decoupled_weight_decay deprecated_use_mcore_models "
    "disable_last_saving disable_parameter_transpose_cache enable_autocast enable_primus_turbo "
    "exp_name extends fp8_multi_head_attention framework "
    "fsdp_all_gather_in_start_param_sync fused_single_qkv_rope hetereogenous_dist_checkpoint "
    "heterogeneous_block_specs hf_model_id hf_path includes inference_sampling_seed "
    "load_safetensors log_avg_reset_interval log_avg_skip_iterations max_epochs "
    "memory_efficient_layer_norm model_type moe_router_topk_limited_devices moe_token_dropping "
    "mtp_enabled parallel_output perform_initialization pipeline_dtype post_init quant_recipe "
    "restore_modelopt_state rope_scaling save_safetensors scatter_embedding_sequence_parallel "
    "seq_len_interpolation_factor sequence_parallel_size softmax_scale split_dataset_ratio "
    "stderr_sink_level store_param_remainders tensorboard_dir tp_comm_atomic_ag "
    "tp_comm_atomic_rs tp_comm_overlap_disable_fc1 tp_comm_overlap_disable_qkv tp_only_amax_red "
    "trainable tuner_type use_cpu_initialization use_gloo_process_groups use_mamba_mem_eff_path "
    "use_mbridge "
    "use_te use_transformer_engine use_transformer_engine_full_layer_spec user_name work_group "
    "workspace";

/// Sections of run files whose other keys change neither memory nor time.
inline constexpr std::string_view idle_sections =
    "algorithm checkpoint data dataset dist exp_manager ft inprocess_restart logger "
    "nvrx_straggler platform profiling rerun_state_machine rng scheduler straggler "
    "tensor_inspect tokenizer trainer validation";

/// Sections of other models and programs beside the one that is trained.
inline constexpr std::string_view other_sections = "critic ref reward reward_model rollout";

}  // namespace stagecraft
