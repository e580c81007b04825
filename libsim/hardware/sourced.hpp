#pragma once

#include <string>
#include <string_view>

namespace stagecraft {

/// How the source of a constant begins that a user gave without one: a file or an override follows.
inline constexpr std::string_view given_source = "given in ";

/// A constant that models reality, with its source.
template <typename T>
struct Sourced {
  T value{};
  std::string source;  ///< data sheet, paper and section, measurement, file of ours; never empty
  std::string fitted;  ///< to what it was fitted; empty if it was not
  /// Standard deviation of the logarithm of what the value could be, by the spread between sources;
  /// a fit starts from it. 0: not given.
  double spread = 0;

  friend bool operator==(Sourced const&, Sourced const&) = default;
};

template <typename Field>
inline constexpr bool is_sourced = false;
template <typename Value>
inline constexpr bool is_sourced<Sourced<Value>> = true;

}  // namespace stagecraft
