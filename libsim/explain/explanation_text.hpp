#pragma once

#include <string>

#include "libsim/explain/explanation.hpp"

namespace stagecraft {

/// How much of an explanation to write.
struct ExplanationStyle {
  int width = 100;  ///< columns; sentences are kept within it, and wide tables get more columns
  bool shows_all = false;  ///< every tensor; changes that are not legal or do nothing, with reasons
};

/// An explanation for a reader who has never seen a pipeline: what fills the fullest stage, what
/// an iteration's time consists of, what each single change does, and which choices do not pay.
std::string explanation_text(Explanation const& explanation,
                             RunConfig const& run,
                             ExplanationStyle const& style);

}  // namespace stagecraft
