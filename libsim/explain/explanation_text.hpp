#pragma once

#include <string>

#include "libsim/explain/explanation.hpp"
#include "libsim/units/quantity.hpp"

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

// The parts of explanation_text(), each with its heading. Sizes and times of a table are in the
// unit of its largest.

/// What fills the fullest stage at its peak, and why.
std::string memory_section(Explanation const& explanation, ExplanationStyle const& style);

/// What each stage reserves and has on its device, and why the tightest one reserves more than is
/// counted: what its blocks are, by pool and size.
std::string reserved_section(Explanation const& explanation,
                             RunConfig const& run,
                             ExplanationStyle const& style);

/// The effect of each change, and the changes that help most.
std::string changes_section(Explanation const& explanation, ExplanationStyle const& style);

/// The effect of the pairs that help most. Pre: the explanation has pairs.
std::string pairs_section(Explanation const& explanation, ExplanationStyle const& style);

inline double percent_of(std::int64_t part, std::int64_t whole) {
  return 100 * static_cast<double>(part) / static_cast<double>(whole);
}
inline double percent_of(SimTime part, SimTime whole) {
  return percent_of(part.count(), whole.count());
}

}  // namespace stagecraft
