#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace stagecraft {

/// The candidate of which `word` is most likely a misspelling; empty if none is near. A candidate
/// is near if inserting, dropping or replacing letters or swapping neighbours, of at most a third
/// of its letters, turns one into the other, or if it is the only one that begins with the word.
std::string_view nearest_word(std::string_view word, std::vector<std::string> const& candidates);

/// The words in one text: `a, b, c`.
std::string joined(std::vector<std::string> const& words);

}  // namespace stagecraft
