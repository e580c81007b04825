#pragma once

#include <array>
#include <string_view>

#include "libsim/import/frameworks/framework_keys.hpp"

namespace stagecraft {

/// A flavor of a model of torchtitan and what configs/models calls it.
struct TorchtitanModel {
  std::string_view name;
  std::string_view flavor;
  std::string_view model;
};

inline constexpr std::array torchtitan_models{
    TorchtitanModel{"llama3", "8B", "llama3.1-8b"},
    TorchtitanModel{"llama3", "70B", "llama3.1-70b"},
    TorchtitanModel{"llama3", "405B", "llama3.1-405b"},
    TorchtitanModel{"deepseek_v3", "671B", "deepseek-v3"},
    TorchtitanModel{"gpt_oss", "20b", "gpt-oss-20b"},
    TorchtitanModel{"gpt_oss", "120b", "gpt-oss-120b"},
    TorchtitanModel{"qwen3", "8B", "qwen3-8b"},
    TorchtitanModel{"qwen3", "14B", "qwen3-14b"},
    TorchtitanModel{"qwen3", "32B", "qwen3-32b"},
    TorchtitanModel{"qwen3", "30B-A3B", "qwen3-30b-a3b"},
    TorchtitanModel{"qwen3", "235B-A22B", "qwen3-235b-a22b"},
};

/// A schedule of torch.distributed.pipelining and what a run file calls it.
struct TorchtitanSchedule {
  std::string_view name;
  std::string_view schedule;
};

inline constexpr std::array torchtitan_schedules{
    TorchtitanSchedule{"1F1B", "1f1b"},
    TorchtitanSchedule{"GPipe", "gpipe"},
    TorchtitanSchedule{"Interleaved1F1B", "interleaved"},
    TorchtitanSchedule{"InterleavedZeroBubble", "interleaved_zb"},
    TorchtitanSchedule{"ZBVZeroBubble", "zbv"},
};

/// The keys of torchtitan/config/job_config.py, up to the last version that read TOML (February
/// 2026), that are not read.
inline constexpr std::array unread_torchtitan_keys{
    UnreadKey{"job"},
    UnreadKey{"profiling"},
    UnreadKey{"metrics"},
    UnreadKey{"model.hf_assets_path"},
    UnreadKey{"model.tokenizer_path"},
    UnreadKey{"model.print_after_conversion"},
    UnreadKey{"model.norm_type"},
    UnreadKey{"optimizer"},
    UnreadKey{"optimizer.early_step_in_backward", OmittedEffect::large, "less memory"},
    UnreadKey{"lr_scheduler"},
    UnreadKey{"training.dataset"},
    UnreadKey{"training.dataset_path"},
    UnreadKey{"training.max_norm"},
    UnreadKey{"training.warmup_steps"},
    UnreadKey{"training.steps"},
    UnreadKey{"training.seed"},
    UnreadKey{"training.deterministic", OmittedEffect::large, "more time"},
    UnreadKey{"training.gc_freq"},
    UnreadKey{"training.gc_debug"},
    UnreadKey{"training.dataloader"},
    UnreadKey{"training.mixed_precision_reduce"},
    UnreadKey{"training.fp8_linear"},
    UnreadKey{"parallelism.disable_loss_parallel", OmittedEffect::large, "more memory"},
    UnreadKey{"parallelism.module_fqns_per_model_part", OmittedEffect::large, "either way"},
    UnreadKey{"parallelism.pipeline_parallel_first_stage_less_layers", OmittedEffect::large,
              "either way"},
    UnreadKey{"parallelism.pipeline_parallel_last_stage_less_layers", OmittedEffect::large,
              "either way"},
    UnreadKey{"parallelism.pipeline_parallel_layers_per_stage", OmittedEffect::large, "either way"},
    UnreadKey{"parallelism.pipeline_parallel_split_points", OmittedEffect::large, "either way"},
    UnreadKey{"parallelism.pipeline_parallel_schedule_csv", OmittedEffect::large, "either way"},
    UnreadKey{"parallelism.pipeline_parallel_expert_parallel_overlap"},
    UnreadKey{"parallelism.context_parallel_load_balancer"},
    UnreadKey{"parallelism.expert_tensor_parallel_degree"},
    UnreadKey{"parallelism.expert_parallel_comm_backend", OmittedEffect::large, "less time"},
    UnreadKey{"parallelism.enable_compiled_autograd"},
    UnreadKey{"checkpoint"},
    UnreadKey{"activation_checkpoint.per_op_sac_force_recompute_mm_shapes_by_fqns"},
    UnreadKey{"activation_checkpoint.memory_budget"},
    UnreadKey{"activation_checkpoint.visualize_memory_budget_pareto"},
    UnreadKey{"activation_checkpoint.preserve_rng_state"},
    UnreadKey{"activation_checkpoint.determinism_check"},
    UnreadKey{"activation_checkpoint.debug"},
    UnreadKey{"compile.backend"},
    UnreadKey{"quantize"},
    UnreadKey{"float8"},
    UnreadKey{"mx"},
    UnreadKey{"comm"},
    UnreadKey{"memory_estimation"},
    UnreadKey{"fault_tolerance"},
    UnreadKey{"experimental.custom_import"},
    UnreadKey{"experimental.custom_args_module"},
    UnreadKey{"experimental.enable_compiled_autograd"},
    UnreadKey{"validation"},
    UnreadKey{"debug"},
    UnreadKey{"debug.deterministic", OmittedEffect::large, "more time"},
};

}  // namespace stagecraft
