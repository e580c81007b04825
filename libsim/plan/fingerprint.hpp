#pragma once

#include <string>

#include "libsim/plan/training_plan.hpp"

namespace stagecraft {

/// SHA-256 of a plan's canonical text, 64 hexadecimal digits. The text holds everything that
/// decides what is computed, in which order (by its digest) and in which buffers. System, costs,
/// clock, backend and version are not part of it.
std::string fingerprint(TrainingPlan const& plan);

}  // namespace stagecraft
