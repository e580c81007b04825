#pragma once

#include <string>

#include "libsim/plan/training_plan.hpp"

namespace stagecraft {

/// The canonical text of a plan: everything that decides what is computed, in which order (by its
/// digest) and in which buffers. System, costs, clock, backend and version are not part of it.
std::string canonical_text(TrainingPlan const& plan);

/// SHA-256 of the canonical text, 64 hexadecimal digits.
std::string fingerprint(TrainingPlan const& plan);

}  // namespace stagecraft
