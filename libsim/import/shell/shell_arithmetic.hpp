#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libsim/import/shell/shell_words.hpp"

namespace stagecraft {

/// The value of `$((expression))`: whole numbers, variables with or without `$`, + - * / % **, what
/// compares, ! && || ?: and brackets. Returns nullopt if a variable is not set or is not a number,
/// at a division by 0, and for any other operator.
std::optional<std::int64_t> shell_arithmetic(std::string_view expression,
                                             ShellVariables const& variables);

/// What an expression such as `N++`, `++N`, `N = 3` or `N += 3` does.
struct ShellStep {
  std::string name;
  std::optional<std::int64_t> value;   ///< of the variable behind it
  std::optional<std::int64_t> result;  ///< of the expression
};

/// Returns nullopt if an expression sets no variable, or does more than that.
std::optional<ShellStep> shell_step(std::string_view expression, ShellVariables const& variables);

/// The variables that any part of an expression sets.
std::vector<std::string> names_set_in(std::string_view expression);

}  // namespace stagecraft
