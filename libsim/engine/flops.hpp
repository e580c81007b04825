#pragma once

#include <optional>

#include "libsim/hardware/system.hpp"
#include "libsim/plan/training_plan.hpp"

namespace stagecraft {

/// FLOPs of the matrix products of one iteration of the whole job without recompute (equation 7 of
/// the paper for its models).
double model_flops(TrainingConfig const& config);

/// The peak of all accelerators of the job at the precision of the model, or of TF32 if its
/// products read that, FLOP/s. Pre: the system has such products.
double peak_flops_per_second(TrainingConfig const& config, System const& system);

/// FLOPs of the matrix products that the plan's programs really run, with recompute, vocabulary
/// padding and replicated heads.
double hardware_flops(TrainingPlan const& plan);

/// The paper's printed hardware FLOPs: equation 8 with SP or TP and selective recompute of core
/// attention; equation 7 without recompute; 4/3 of the layers' FLOPs with full recompute. nullopt
/// for other runs.
/// Source: Korthikanti et al. 2022, appendix A; for full recompute Narayanan et al. 2021, section 3.1.
std::optional<double> paper_hardware_flops(TrainingPlan const& plan);

}  // namespace stagecraft
