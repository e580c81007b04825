#pragma once

#include "libsim/engine/simulation.hpp"
#include "libsim/training/training_config.hpp"

namespace stagecraft {

/// MFU with attention counted as causal: each token attends to half of the sequence on average, so
/// half of the FLOPs of both attention products are left out. Simulation::mfu counts them all, as
/// Korthikanti et al. 2022 (appendix A) and Megatron-LM do; PaLM (Chowdhery et al. 2022) too.
double mfu_causal(Simulation const& simulation, TrainingConfig const& config);

}  // namespace stagecraft
