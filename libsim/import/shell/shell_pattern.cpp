#include "libsim/import/shell/shell_pattern.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

namespace stagecraft {
namespace {

/// Whether a character is of a class such as `digit`.
bool is_of_class(unsigned char c, std::string_view name) {
  using Test = int (*)(int);
  constexpr std::array<std::pair<std::string_view, Test>, 8> classes{{{"alnum", std::isalnum},
                                                                      {"alpha", std::isalpha},
                                                                      {"blank", std::isblank},
                                                                      {"digit", std::isdigit},
                                                                      {"lower", std::islower},
                                                                      {"punct", std::ispunct},
                                                                      {"space", std::isspace},
                                                                      {"upper", std::isupper}}};
  for (auto const& [known, test] : classes) {
    if (known == name) return test(c) != 0;
  }
  return false;
}

/// Whether an element of a pattern matches a character, and the end of the element in the pattern.
struct PatternElement {
  bool matches = false;
  std::size_t end = 0;
};

/// A set in brackets, `[` at `at`; nullopt if no bracket closes it.
std::optional<PatternElement> bracket(std::string_view pattern, std::size_t at, char c) {
  std::size_t i = at + 1;
  bool const is_negated = i < pattern.size() && (pattern[i] == '!' || pattern[i] == '^');
  if (is_negated) ++i;
  bool matches = false;
  for (bool is_first = true; i < pattern.size(); is_first = false) {
    if (pattern[i] == ']' && !is_first) return PatternElement{matches != is_negated, i + 1};
    if (pattern.substr(i).starts_with("[:")) {
      std::size_t const end = pattern.find(":]", i + 2);
      if (end == std::string_view::npos) return std::nullopt;
      auto const name = pattern.substr(i + 2, end - i - 2);
      matches = matches || is_of_class(static_cast<unsigned char>(c), name);
      i = end + 2;
      continue;
    }
    if (pattern[i] == '\\' && i + 1 < pattern.size()) ++i;
    char const first = pattern[i++];
    bool const is_range = i + 1 < pattern.size() && pattern[i] == '-' && pattern[i + 1] != ']';
    char const last = is_range ? pattern[i + 1] : first;
    if (is_range) i += 2;
    matches = matches || (first <= c && c <= last);
  }
  return std::nullopt;
}

/// The element at `at`, which is not a `*`.
PatternElement element(std::string_view pattern, std::size_t at, char c) {
  if (pattern[at] == '?') return {true, at + 1};
  if (pattern[at] == '[') {
    if (auto const found = bracket(pattern, at, c)) return *found;
  }
  bool const is_escaped = pattern[at] == '\\' && at + 1 < pattern.size();
  std::size_t const letter = is_escaped ? at + 1 : at;
  return {pattern[letter] == c, letter + 1};
}

/// Whether a group such as `@(a|b)` begins at `at`.
bool is_group(std::string_view pattern, std::size_t at) {
  return at + 1 < pattern.size() && pattern[at + 1] == '(' &&
         std::string_view{"?*+@!"}.find(pattern[at]) != std::string_view::npos;
}

bool has_group(std::string_view pattern) {
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] == '\\') {
      ++i;
    } else if (is_group(pattern, i)) {
      return true;
    }
  }
  return false;
}

/// Matches patterns with groups. Used for one pattern: it counts its steps, which may grow with a
/// power of the length.
class ExtendedMatch {
 public:
  bool matches(std::string_view text, std::string_view pattern) {
    constexpr int most = 200'000;
    if (++steps_ > most) return false;
    if (pattern.empty()) return text.empty();
    if (is_group(pattern, 0)) return matches_group(text, pattern);
    if (pattern[0] == '*') {
      for (std::size_t i = 0; i <= text.size(); ++i) {
        if (matches(text.substr(i), pattern.substr(1))) return true;
      }
      return false;
    }
    if (text.empty()) return false;
    PatternElement const next = element(pattern, 0, text[0]);
    return next.matches && matches(text.substr(1), pattern.substr(next.end));
  }

 private:
  bool matches_group(std::string_view text, std::string_view pattern) {
    std::vector<std::string_view> choices;
    std::size_t end = 2;
    std::size_t start = 2;
    for (int depth = 1; end < pattern.size(); ++end) {
      if (pattern[end] == '\\') {
        ++end;
        continue;
      }
      if (pattern[end] == '(') ++depth;
      if (pattern[end] == ')') --depth;
      if (depth == 0 || (depth == 1 && pattern[end] == '|')) {
        choices.push_back(pattern.substr(start, end - start));
        start = end + 1;
      }
      if (depth == 0) break;
    }
    char const kind = pattern[0];
    std::string_view const rest = pattern.substr(std::min(end + 1, pattern.size()));
    std::string const again = "*" + std::string{pattern.substr(1)};
    if ((kind == '?' || kind == '*') && matches(text, rest)) return true;
    bool const repeats = kind == '*' || kind == '+';
    for (std::size_t i = 0; i <= text.size(); ++i) {
      bool is_one = false;
      for (std::string_view const choice : choices) {
        is_one = is_one || matches(text.substr(0, i), choice);
      }
      if (is_one == (kind == '!')) continue;
      std::string_view const left = text.substr(i);
      if (matches(left, rest) || (repeats && i > 0 && matches(left, again))) return true;
    }
    return false;
  }

  int steps_ = 0;
};

}  // namespace

bool matches_pattern(std::string_view text, std::string_view pattern) {
  if (has_group(pattern)) return ExtendedMatch{}.matches(text, pattern);
  std::size_t i = 0;
  std::size_t p = 0;
  // After a mismatch the last `*` takes one character more.
  std::optional<std::pair<std::size_t, std::size_t>> retry;
  while (i < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      retry = {i, ++p};
      continue;
    }
    PatternElement const next =
        p < pattern.size() ? element(pattern, p, text[i]) : PatternElement{false, p};
    if (next.matches) {
      ++i;
      p = next.end;
    } else if (retry) {
      i = ++retry->first;
      p = retry->second;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

std::string as_pattern(std::string_view text) {
  std::string pattern;
  for (char const c : text) {
    if (std::string_view{"*?[]\\(|)"}.find(c) != std::string_view::npos) pattern += '\\';
    pattern += c;
  }
  return pattern;
}

}  // namespace stagecraft
