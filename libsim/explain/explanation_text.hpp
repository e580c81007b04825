#pragma once

#include <string>

#include "libsim/explain/explanation.hpp"

namespace stagecraft {

/// How wide and how detailed the text of an explanation is.
struct ExplanationStyle {
  int width = 100;         ///< characters per line; wider tables have more columns
  bool shows_all = false;  ///< every tensor, and the changes that are not legal or have no effect
};

/// The explanation as text for a reader who is new to pipelines: what fills the fullest stage, how
/// an iteration's time is spent, what each single change does, and which choices do not pay off.
std::string explanation_text(Explanation const& explanation,
                             RunConfig const& run,
                             ExplanationStyle const& style);

}  // namespace stagecraft
