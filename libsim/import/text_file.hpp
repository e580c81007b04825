#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "libsim/config/problem.hpp"

namespace stagecraft {

/// The largest file that an import reads, in bytes: far larger than any config.json or launch
/// script.
inline constexpr std::size_t largest_import = std::size_t{1} << 20;

/// The content of a file. `what` says in messages what was wanted, such as "a launch script".
/// \throws ConfigError  if it is a folder, cannot be read, or is too large.
std::string read_text_file(std::filesystem::path const& path, std::string const& what);

/// Reports text that is not one JSON value, at its line and column.
void require_json(std::string_view text, std::string const& origin, Diagnostics& diagnostics);

}  // namespace stagecraft
