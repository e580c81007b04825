#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace stagecraft {

/// The candidate that `word` is most likely a misspelling of; empty if none is near. Near means:
/// turned into it by at most a third of its letters inserted, dropped, replaced or swapped with a
/// neighbour.
std::string_view nearest_word(std::string_view word, std::vector<std::string> const& candidates);

/// `a, b, c`.
std::string joined(std::vector<std::string> const& words);

}  // namespace stagecraft
