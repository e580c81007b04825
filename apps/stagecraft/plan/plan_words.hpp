#pragma once

#include <string>
#include <vector>

#include "apps/stagecraft/plan/plan_answer.hpp"

namespace stagecraft {

/// The policies of all stages; equal neighbours are written once: `0 selective +2; 1-7 selective`.
/// Modules that are not those of `selective` are named.
std::string recompute_text(TrainingConfig const& config);

/// What the policies of all stages have in common: `selective +4-11`, modules by their short names,
/// or their kinds.
std::string common_recompute(TrainingConfig const& config);

/// Explains the words of common_recompute() and recompute_text() that the plans have.
void explain_recompute(std::vector<ShownPlan> const& plans, std::vector<std::string>& legend);

/// `none`, `optimizer`, or a kind with units: `fsdp2/8 kept` is shared by 8 ranks, with copies
/// beyond, and keeps its parameters after forward.
std::string sharding_text(Sharding const& sharding);

/// The layers of all stages: `even`, or with equal neighbours written once `11+6x12+11`.
std::string layout_text(FoundPlan const& plan);

/// The stages of a plan, with their memory and what is left on their devices; equal neighbours
/// share a line. Empty if there is one stage.
std::vector<std::string> stage_lines(FoundPlan const& plan);

}  // namespace stagecraft
