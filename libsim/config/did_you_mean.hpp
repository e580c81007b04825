#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace stagecraft {

/// The candidate of which `word` is most likely a misspelling; empty if none is near. A candidate
/// is near if inserting, dropping or replacing letters or swapping neighbours, at most `most` times
/// and of at most a third of its letters, turns one into the other, or if it is the only one that
/// begins with the word. Large and small letters count as equal.
std::string_view nearest_word(std::string_view word,
                              std::vector<std::string> const& candidates,
                              std::size_t most = std::string_view::npos);

/// `; did you mean 'meant'?`; empty if no word is meant.
std::string hint_of(std::string_view meant);

/// `; did you mean 'a' or 'b'?` with the candidates that have the word as a part between dashes or
/// dots (`h100` in `dgx-h100`), or else with the nearest word; empty if there are none.
std::string did_you_mean(std::string_view word, std::vector<std::string> const& candidates);

/// The same with the words of a list `a, b, or something else`; empty if it does not begin with a
/// word and a comma.
std::string did_you_mean_of_list(std::string_view word, std::string_view list);

/// The words in one text: `a, b, c`.
std::string joined(std::vector<std::string> const& words);

}  // namespace stagecraft
