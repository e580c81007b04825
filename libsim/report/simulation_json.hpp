#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "libsim/engine/simulation.hpp"
#include "libsim/run/run_config.hpp"
#include "libsim/training/training_config.hpp"

namespace stagecraft {

/// MFU with attention counted as causal: each token attends to half of the sequence on average, so
/// half of the FLOPs of both attention products are left out. Simulation::mfu counts them all, as
/// Korthikanti et al. 2022 (appendix A) and Megatron-LM do; PaLM (Chowdhery et al. 2022) too.
double mfu_causal(Simulation const& simulation, TrainingConfig const& config);

/// The precision of whose peak MFU and HFU are shares: the model's, or "tf32".
std::string_view precision_of_mfu(TrainingConfig const& config);

/// That peak in words, of a run whose products have another: "bf16 peak, not of that in 8 bits",
/// "tf32 peak, not of fp32's". Empty for other runs.
std::string peak_of_mfu(TrainingConfig const& config);

/// The results of a simulation with the interval of the iteration's time: the document of
/// `simulate --json` without `config` and `warnings`. Bytes are integers and per GPU, times are in
/// seconds, FLOPs are those of the whole job; a value that does not apply is null.
nlohmann::ordered_json simulation_results(Simulation const& simulation,
                                          TrainingPlan const& plan,
                                          System const& system);

/// The whole document of `simulate --json`, schema stagecraft.simulation/1: the results,
/// the effective configuration and the run's warnings.
/// Pre: `plan` is that of `run`, which ready_run() made.
nlohmann::ordered_json simulation_document(Simulation const& simulation,
                                           TrainingPlan const& plan,
                                           RunConfig const& run);

/// An object with the seconds of each part of an iteration.
nlohmann::ordered_json to_json(Breakdown const& breakdown);

/// An object with the bytes of each category.
nlohmann::ordered_json to_json(CategoryBytes const& bytes);

}  // namespace stagecraft
