#pragma once

#include <string>

namespace stagecraft {

/// A constant that models reality, with where it comes from.
template <typename T>
struct Sourced {
  T value{};
  std::string source;  ///< data sheet, paper and section, measurement, file of ours; never empty
  std::string fitted;  ///< empty: not fitted; else on what

  friend bool operator==(Sourced const&, Sourced const&) = default;
};

}  // namespace stagecraft
