#pragma once

#include <optional>

#include "libsim/hardware/system.hpp"
#include "libsim/plan/training_plan.hpp"

namespace stagecraft {

/// Matrix-product work of one iteration of the whole job, nothing recomputed (the paper's equation
/// 7 for its models).
double model_flops(TrainingConfig const& config);

/// What all accelerators of the job can do at the precision of the model, FLOP/s.
double peak_flops_per_second(TrainingConfig const& config, System const& system);

/// Matrix-product work that the plan's programs really do: recompute, vocabulary padding and
/// replicated heads included.
double hardware_flops(TrainingPlan const& plan);

/// The paper's printed hardware FLOPs: equation 8 with SP or TP and selective recompute of core
/// attention; equation 7 without recompute; 4/3 of the layers' work with full recompute. Absent
/// elsewhere.
/// Source: Korthikanti et al. 2022, appendix A; for full recompute Narayanan et al. 2021, section 3.1.
std::optional<double> paper_hardware_flops(TrainingPlan const& plan);

}  // namespace stagecraft
