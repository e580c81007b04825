#pragma once

#include "libsim/config/config_node.hpp"
#include "libsim/run/run_config.hpp"

namespace stagecraft {

/// Reports a model for whose precision the system has no peak. `root` is the run file.
void check_precision(RunConfig const& config, ConfigNode const& root);

/// Reports flash attention on a CUDA device that is too old for FlashAttention's kernels, and warns
/// of a precision that they do not have. Source: README.md of Dao-AILab/flash-attention 2, "Ampere,
/// Ada, or Hopper", "fp16 and bf16".
void check_attention(RunConfig const& config, ConfigNode const& root);

/// Reports a recipe of `low_precision` for which the accelerator has no products.
void check_recipe(RunConfig const& config, ConfigNode const& root);

/// Reports a run in TF32 on an accelerator without products in it.
void check_tf32(RunConfig const& config, ConfigNode const& root);

/// Reports kernels of `dispatch: deepep` for which the accelerator has too few multiprocessors, or
/// which DeepEP does not have.
void check_dispatch(RunConfig const& config, ConfigNode const& root);

/// Reports a run that offloads on a system that does not say what its hosts are.
void check_host(RunConfig const& config, ConfigNode const& root);

/// Reports a run whose iteration could take longer than SimTime can represent (106 days), by an
/// upper bound: all bytes over the slowest link, FLOPs at a hundredth of the peak, and every
/// latency.
void check_run_time(RunConfig const& config, ConfigNode const& root);

}  // namespace stagecraft
