#include "libsim/import/shell/shell_braces.hpp"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libsim/import/shell/shell_brackets.hpp"
#include "libsim/units/parse_number.hpp"

namespace stagecraft {
namespace {

constexpr std::size_t most_words = 1000;
constexpr int deepest_braces = 16;

/// The position behind what begins at `at`: a quoted part, `${...}`, `$(...)` or one character.
std::size_t behind_piece(std::string_view text, std::size_t at) {
  char const c = text[at];
  if (c == '\\') return std::min(at + 2, text.size());
  if (c == '\'' || c == '`' || c == '"') {
    for (std::size_t i = at + 1; i < text.size(); ++i) {
      if (c != '\'' && text[i] == '\\') {
        ++i;
      } else if (text[i] == c) {
        return i + 1;
      }
    }
    return text.size();
  }
  if (c != '$' || at + 1 == text.size() || (text[at + 1] != '{' && text[at + 1] != '(')) {
    return at + 1;
  }
  return closing_bracket(text, at + 1);
}

/// The parts of a brace expression, and its end in the text.
struct Brace {
  std::vector<std::string_view> parts;
  std::size_t end = 0;
};

/// The brace that opens at `open`; nullopt if nothing closes it.
std::optional<Brace> brace_at(std::string_view text, std::size_t open) {
  Brace brace;
  int depth = 0;
  std::size_t start = open + 1;
  for (std::size_t i = open; i < text.size();) {
    if (text[i] == '{') ++depth;
    bool const closes = text[i] == '}' && --depth == 0;
    if (closes || (text[i] == ',' && depth == 1)) {
      brace.parts.push_back(text.substr(start, i - start));
      start = i + 1;
    }
    if (closes) {
      brace.end = i + 1;
      return brace;
    }
    i = behind_piece(text, i);
  }
  return std::nullopt;
}

/// The texts of `FIRST..LAST` or `FIRST..LAST..STEP`; empty if the text is not such a range.
std::vector<std::string> texts_in_range(std::string_view text) {
  std::size_t const dots = text.find("..");
  if (dots == std::string_view::npos) return {};
  std::size_t const more = text.find("..", dots + 2);
  std::string_view const left = text.substr(0, dots);
  std::string_view const right = text.substr(dots + 2, std::min(more, text.size()) - dots - 2);
  auto const step = more == std::string_view::npos ? std::optional<int>{1}
                                                   : parse_number<int>(text.substr(more + 2));
  if (!step) return {};
  auto first = parse_number<int>(left);
  auto last = parse_number<int>(right);
  auto const is_letter = [](std::string_view part) {
    return part.size() == 1 && std::isalpha(static_cast<unsigned char>(part[0])) != 0;
  };
  bool const are_letters = !first && !last && is_letter(left) && is_letter(right);
  if (are_letters) {
    first = left[0];
    last = right[0];
  }
  if (!first || !last) return {};
  // `{01..10}` has numbers of equal width.
  auto const is_padded = [](std::string_view part) {
    return part.size() > 1 && part[part[0] == '-' ? 1 : 0] == '0';
  };
  bool const pads = !are_letters && (is_padded(left) || is_padded(right));
  std::size_t const width = pads ? std::max(left.size(), right.size()) : 0;
  long const stride = std::max(1L, std::labs(*step)) * (*first <= *last ? 1 : -1);
  std::vector<std::string> texts;
  for (long i = *first; stride > 0 ? i <= *last : i >= *last; i += stride) {
    if (texts.size() == most_words) return {};
    std::string number = are_letters ? std::string(1, static_cast<char>(i)) : std::to_string(i);
    std::size_t const sign = number[0] == '-' ? 1 : 0;
    if (number.size() < width) number.insert(sign, width - number.size(), '0');
    texts.push_back(std::move(number));
  }
  return texts;
}

std::vector<std::string> brace_texts(std::string_view text, int depth) {
  std::size_t open = 0;
  std::vector<std::string> middles;
  std::size_t end = 0;
  for (; open < text.size() && middles.empty(); open = behind_piece(text, open)) {
    if (text[open] != '{' || depth == deepest_braces) continue;
    auto const brace = brace_at(text, open);
    if (!brace) continue;
    end = brace->end;
    if (brace->parts.size() == 1) {
      middles = texts_in_range(brace->parts[0]);
    } else {
      for (std::string_view const part : brace->parts) {
        for (std::string& inner : brace_texts(part, depth + 1)) middles.push_back(std::move(inner));
      }
    }
    if (!middles.empty()) break;
  }
  if (middles.empty()) return {std::string{text}};
  std::vector<std::string> texts;
  std::vector<std::string> const tails = brace_texts(text.substr(end), depth + 1);
  for (std::string const& middle : middles) {
    for (std::string const& tail : tails) {
      if (texts.size() == most_words) return texts;
      texts.push_back(std::string{text.substr(0, open)} + middle + tail);
    }
  }
  return texts;
}

}  // namespace

ShellWords in_braces(ShellWord const& written) {
  if (written.text.find('{') == std::string::npos) return {written};
  ShellWords words;
  for (std::string& text : brace_texts(written.text, 0)) {
    words.push_back({std::move(text), written.line, written.column});
  }
  return words;
}

}  // namespace stagecraft
