#pragma once

#include <string>

#include "libsim/explain/explanation.hpp"
#include "libsim/explain/explanation_style.hpp"

namespace stagecraft {

/// The explanation as text for a reader who is new to pipelines: what fills the fullest stage, how
/// an iteration's time is spent, what each single change does, and which choices do not pay off.
std::string explanation_text(Explanation const& explanation,
                             RunConfig const& run,
                             ExplanationStyle const& style);

}  // namespace stagecraft
