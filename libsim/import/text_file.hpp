#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "libsim/config/problem.hpp"

namespace stagecraft {

/// Largest file that an import reads, in bytes: far above any config.json or launch script.
inline constexpr std::size_t largest_import = std::size_t{1} << 20;

/// The whole of a file. `what` says in messages what was wanted, such as "a launch script".
/// \throws ConfigError  for a folder, what cannot be read, and what is too large.
std::string read_text_file(std::filesystem::path const& path, std::string const& what);

/// Reports text that is not one JSON value, at its line and column.
void require_json(std::string_view text, std::string const& origin, Diagnostics& diagnostics);

}  // namespace stagecraft
