#include "libsim/config/problem.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace stagecraft {
namespace {

std::string all_messages(std::vector<Problem> const& problems) {
  std::string text;
  for (Problem const& problem : problems) {
    if (!text.empty()) text += '\n';
    text += to_string(problem);
  }
  if (problems.size() == Diagnostics::most) {
    text += "\n(only the first " + std::to_string(Diagnostics::most) + " problems are listed)";
  }
  return text;
}

/// Whether `inner` is `outer` or a key below it: "parallel.tensor" or "layout[1]" of "parallel",
/// "layout".
bool is_within(std::string_view inner, std::string_view outer) {
  if (outer.empty() || inner == outer) return true;
  return inner.size() > outer.size() && inner.substr(0, outer.size()) == outer &&
         (inner[outer.size()] == '.' || inner[outer.size()] == '[');
}

}  // namespace

std::string to_string(Place const& place) {
  std::string text = place.origin ? *place.origin : std::string{};
  if (place.line > 0) text += ":" + std::to_string(place.line) + ":" + std::to_string(place.column);
  return text;
}

std::string printable(std::string_view text) {
  constexpr std::size_t longest = 60;
  constexpr std::string_view hex = "0123456789abcdef";
  std::size_t end = std::min(text.size(), longest);
  // A cut inside a UTF-8 sequence would print half a character.
  while (end > 0 && end < text.size() && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) {
    --end;
  }
  std::string clean;
  for (char const c : text.substr(0, end)) {
    auto const byte = static_cast<unsigned char>(c);
    if (c == '\n') {
      clean += "\\n";
    } else if (byte < 0x20 || byte == 0x7F) {
      clean += std::string{"\\x"} + hex[byte >> 4U] + hex[byte & 0xFU];
    } else {
      clean += c;
    }
  }
  if (end < text.size()) clean += "...";
  return clean;
}

std::string to_string(Problem const& problem) {
  std::string text = to_string(problem.place);
  if (!text.empty()) text += ": ";
  if (!problem.key.empty()) text += problem.key + ": ";
  text += problem.found.empty() ? "missing" : "found " + problem.found;
  text += "; accepted";
  if (!problem.condition.empty()) text += " " + problem.condition;
  return text + ": " + problem.accepted;
}

ConfigError::ConfigError(std::vector<Problem> problems)
    : std::runtime_error{all_messages(problems)}, problems_{std::move(problems)} {}

void Diagnostics::add(Problem problem) {
  if (problems_.size() < most) problems_.push_back(std::move(problem));
}

void Diagnostics::warn(Place const& place, std::string_view key, std::string_view text) {
  warnings_.push_back(to_string(place) + ": " + std::string{key} + ": " + std::string{text});
}

bool Diagnostics::is_sound(std::string_view key) const {
  if (problems_.size() == most) return false;
  auto const touches = [&](std::string_view other) {
    return is_within(key, other) || is_within(other, key);
  };
  return std::none_of(problems_.begin(), problems_.end(),
                      [&](Problem const& problem) { return touches(problem.key); }) &&
         std::none_of(unsound_.begin(), unsound_.end(), touches);
}

void Diagnostics::throw_if_any() const {
  if (!problems_.empty()) throw ConfigError{problems_};
}

}  // namespace stagecraft
