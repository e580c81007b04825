#pragma once

#include <span>
#include <string_view>

#include "apps/program/command_line.hpp"
#include "libsim/hardware/key_texts.hpp"

namespace stagecraft {

/// Prints keys with what they accept, their defaults and what they mean, as text or, with --json,
/// as a document of `schema`. Returns the exit code.
int print_keys(CommandLine const& line, std::string_view schema, std::span<KeyText const> keys);

}  // namespace stagecraft
