#include "libsim/config/did_you_mean.hpp"

#include <algorithm>
#include <cctype>
#include <cstddef>

#include "libsim/units/split_text.hpp"

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

std::string lower(std::string_view text) {
  std::string result{text};
  std::ranges::transform(result, result.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return result;
}

bool is_letter_or_digit(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; }

/// Whether `part` is in `whole` as a part between dashes, dots and the like.
bool is_part(std::string_view part, std::string_view whole) {
  for (std::size_t at = whole.find(part); at != std::string_view::npos;
       at = whole.find(part, at + 1)) {
    std::size_t const end = at + part.size();
    bool const begins = at == 0 || !is_letter_or_digit(whole[at - 1]);
    if (begins && (end == whole.size() || !is_letter_or_digit(whole[end]))) return true;
  }
  return false;
}

}  // namespace

std::string_view nearest_word(std::string_view word,
                              std::vector<std::string> const& candidates,
                              std::size_t most) {
  constexpr std::size_t longest = 64;
  constexpr std::size_t shortest_beginning = 3;
  if (word.size() > longest) return {};
  std::string const in_small_letters = lower(word);
  std::string_view best;
  std::size_t best_distance = 0;
  for (std::string const& candidate : candidates) {
    std::size_t const distance = edit_distance(in_small_letters, lower(candidate));
    // The dashes of an option are no letters that could be mistaken.
    std::size_t const dashes = std::min(candidate.find_first_not_of('-'), candidate.size());
    if (distance <= std::min(most, std::max<std::size_t>(1, (candidate.size() - dashes) / 3)) &&
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

std::string hint_of(std::string_view meant) {
  return meant.empty() ? "" : "; did you mean '" + std::string{meant} + "'?";
}

std::string did_you_mean(std::string_view word, std::vector<std::string> const& candidates) {
  constexpr std::size_t shortest_part = 2;
  constexpr std::size_t most = 10;
  std::string const in_small_letters = lower(word);
  std::vector<std::string> meant;
  if (word.size() >= shortest_part) {
    for (std::string const& candidate : candidates) {
      std::string const other = lower(candidate);
      if (other == in_small_letters) {
        meant = {candidate};
        break;
      }
      if (is_part(in_small_letters, other)) meant.push_back(candidate);
    }
  }
  if (meant.empty() || meant.size() > most) {
    return hint_of(nearest_word(word, candidates));
  }
  std::string text = "; did you mean ";
  for (std::size_t i = 0; i < meant.size(); ++i) {
    if (i > 0) text += i + 1 == meant.size() ? " or " : ", ";
    text += "'" + meant[i] + "'";
  }
  return text + "?";
}

std::string did_you_mean_of_list(std::string_view word, std::string_view list) {
  std::vector<std::string> words;
  for (std::string_view const item : split_text(list, ", ")) {
    bool const is_word = item.find_first_of(" ()[]{}'") == std::string_view::npos;
    if (is_word) words.emplace_back(item);
    if (words.empty()) return "";
  }
  return did_you_mean(word, words);
}

std::string joined(std::vector<std::string> const& words) {
  std::string text;
  for (std::string const& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

}  // namespace stagecraft
