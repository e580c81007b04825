#pragma once

#include <array>

#include "libsim/import/frameworks/framework_keys.hpp"

namespace stagecraft {

/// The keys of accelerate/commands/config/config_args.py and of the sections that
/// accelerate/commands/launch.py reads, that are not read here.
inline constexpr std::array unread_accelerate_keys{
    UnreadKey{"compute_environment"},
    UnreadKey{"debug"},
    UnreadKey{"use_cpu", OmittedEffect::large, "more time"},
    UnreadKey{"machine_rank"},
    UnreadKey{"num_machines"},
    UnreadKey{"gpu_ids"},
    UnreadKey{"main_process_ip"},
    UnreadKey{"main_process_port"},
    UnreadKey{"main_training_function"},
    UnreadKey{"rdzv_backend"},
    UnreadKey{"rdzv_conf"},
    UnreadKey{"max_restarts"},
    UnreadKey{"monitor_interval"},
    UnreadKey{"same_network"},
    UnreadKey{"enable_cpu_affinity"},
    UnreadKey{"downcast_bf16"},
    UnreadKey{"tpu_name"},
    UnreadKey{"tpu_zone"},
    UnreadKey{"tpu_env"},
    UnreadKey{"tpu_vm"},
    UnreadKey{"tpu_use_cluster"},
    UnreadKey{"tpu_use_sudo"},
    UnreadKey{"command_file"},
    UnreadKey{"commands"},
    UnreadKey{"mpirun_config"},
    UnreadKey{"dynamo_config"},
    UnreadKey{"fp8_config", OmittedEffect::large, "less time", "bf16 is modelled"},
    UnreadKey{"fsdp_config.fsdp_cpu_ram_efficient_loading"},
    UnreadKey{"fsdp_config.fsdp_forward_prefetch", OmittedEffect::small, "less time"},
    UnreadKey{"fsdp_config.fsdp_min_num_params"},
    UnreadKey{"fsdp_config.fsdp_state_dict_type"},
    UnreadKey{"fsdp_config.fsdp_sync_module_states"},
    UnreadKey{"fsdp_config.fsdp_transformer_layer_cls_to_wrap"},
    UnreadKey{"fsdp_config.fsdp_use_orig_params"},
    UnreadKey{"fsdp_config.fsdp_limit_all_gathers"},
    UnreadKey{"fsdp_config.fsdp_ignored_modules", OmittedEffect::large, "more memory"},
    UnreadKey{"deepspeed_config.gradient_clipping"},
    UnreadKey{"deepspeed_config.zero3_init_flag"},
    UnreadKey{"deepspeed_config.zero3_save_16bit_model"},
    UnreadKey{"deepspeed_config.deepspeed_multinode_launcher"},
    UnreadKey{"deepspeed_config.deepspeed_hostfile"},
    UnreadKey{"deepspeed_config.deepspeed_exclusion_filter"},
    UnreadKey{"deepspeed_config.deepspeed_inclusion_filter"},
    UnreadKey{"deepspeed_config.deepspeed_moe_layer_cls_names"},
    UnreadKey{"deepspeed_config.offload_optimizer_nvme_path"},
    UnreadKey{"deepspeed_config.offload_param_nvme_path"},
    UnreadKey{"megatron_lm_config.megatron_lm_gradient_clipping"},
    UnreadKey{"megatron_lm_config", OmittedEffect::unknown},
    UnreadKey{"parallelism_config.parallelism_config_cp_backend"},
    UnreadKey{"parallelism_config.parallelism_config_sp_backend"},
    UnreadKey{"parallelism_config.parallelism_config_sp_seq_length"},
    UnreadKey{"parallelism_config.parallelism_config_sp_seq_length_is_variable"},
    UnreadKey{"parallelism_config.parallelism_config_sp_attn_implementation"},
};

}  // namespace stagecraft
