#include "libsim/config/did_you_mean.hpp"

#include <algorithm>
#include <cstddef>

namespace stagecraft {
namespace {

/// Damerau's edit distance, restricted to swaps of neighbours that are not edited again.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::size_t const width = b.size() + 1;
  std::vector<std::size_t> table((a.size() + 1) * width);
  auto const at = [&](std::size_t i, std::size_t j) -> std::size_t& {
    return table[i * width + j];
  };
  for (std::size_t i = 0; i <= a.size(); ++i) {
    for (std::size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        at(i, j) = i + j;
        continue;
      }
      std::size_t const replaced = at(i - 1, j - 1) + (a[i - 1] == b[j - 1] ? 0 : 1);
      at(i, j) = std::min({at(i - 1, j) + 1, at(i, j - 1) + 1, replaced});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        at(i, j) = std::min(at(i, j), at(i - 2, j - 2) + 1);
      }
    }
  }
  return at(a.size(), b.size());
}

}  // namespace

std::string_view nearest_word(std::string_view word, std::vector<std::string> const& candidates) {
  constexpr std::size_t longest = 64;
  constexpr std::size_t shortest_beginning = 3;
  if (word.size() > longest) return {};
  std::string_view best;
  std::size_t best_distance = 0;
  for (std::string const& candidate : candidates) {
    std::size_t const distance = edit_distance(word, candidate);
    // The dashes of an option are no letters that could be mistaken.
    std::size_t const dashes = std::min(candidate.find_first_not_of('-'), candidate.size());
    if (distance <= std::max<std::size_t>(1, (candidate.size() - dashes) / 3) &&
        (best.empty() || distance < best_distance)) {
      best = candidate;
      best_distance = distance;
    }
  }
  if (!best.empty() || word.size() < shortest_beginning) return best;
  auto const begins = [&](std::string const& candidate) { return candidate.starts_with(word); };
  auto const only = std::find_if(candidates.begin(), candidates.end(), begins);
  bool const is_only = only != candidates.end() && std::none_of(only + 1, candidates.end(), begins);
  return is_only ? std::string_view{*only} : std::string_view{};
}

std::string joined(std::vector<std::string> const& words) {
  std::string text;
  for (std::string const& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

}  // namespace stagecraft
