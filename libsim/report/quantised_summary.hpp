#pragma once

#include <string>

#include "libsim/plan/training_plan.hpp"

namespace stagecraft {

/// One line on products in 8 bits: what the copies of weights that the fullest stage keeps take
/// beside the parameters, and which part of them is transposed. Empty without such products.
std::string quantised_text(TrainingPlan const& plan);

}  // namespace stagecraft
