#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "libsim/import/shell/shell_words.hpp"

namespace stagecraft {

/// The value of `$((expression))`: whole numbers, variables with or without `$`, + - * / % **, what
/// compares, ! && || ?: and brackets. Returns nullopt if a variable is not set or is not a number,
/// at a division by 0, and for any other operator.
std::optional<std::int64_t> shell_arithmetic(std::string_view expression,
                                             ShellVariables const& variables);

}  // namespace stagecraft
