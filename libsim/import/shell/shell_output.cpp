#include "libsim/import/shell/shell_output.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "libsim/units/parse_number.hpp"

namespace stagecraft {

std::optional<std::string> output_of_seq(std::string_view words) {
  constexpr std::string_view blanks = " \t\n";
  constexpr std::size_t most = 10'000;
  std::vector<std::int32_t> numbers;
  for (std::size_t at = words.find_first_not_of(blanks); at < words.size();) {
    std::size_t const end = std::min(words.find_first_of(blanks, at), words.size());
    auto const number = parse_number<std::int32_t>(words.substr(at, end - at));
    if (!number) return std::nullopt;
    numbers.push_back(*number);
    at = words.find_first_not_of(blanks, end);
  }
  if (numbers.empty() || numbers.size() > 3) return std::nullopt;
  std::int64_t const first = numbers.size() > 1 ? numbers.front() : 1;
  std::int64_t const step = numbers.size() > 2 ? numbers[1] : 1;
  std::int64_t const last = numbers.back();
  if (step == 0) return std::nullopt;
  std::string text;
  std::size_t count = 0;
  for (std::int64_t i = first; step > 0 ? i <= last : i >= last; i += step) {
    if (++count > most) return std::nullopt;
    text += (text.empty() ? "" : "\n") + std::to_string(i);
  }
  return text;
}

}  // namespace stagecraft
