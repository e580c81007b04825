#pragma once

#include <concepts>
#include <string>

namespace stagecraft {

/// "1 pass", "3 passes".
template <std::integral Count>
std::string counted(Count count, std::string const& one, std::string const& many) {
  return std::to_string(count) + " " + (count == 1 ? one : many);
}

/// "1 run", "3 runs".
template <std::integral Count>
std::string counted(Count count, std::string const& one) {
  return counted(count, one, one + "s");
}

}  // namespace stagecraft
