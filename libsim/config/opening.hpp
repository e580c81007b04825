#pragma once

#include <filesystem>
#include <string>

namespace stagecraft {

/// Why a file could not be opened, as the end of a message: " (No such file or directory; looked
/// for in /home/x)", with what to do about a `~` or a variable that no shell has expanded. `error`
/// is the value of errno after the attempt.
std::string why_not_opened(std::filesystem::path const& path, int error);

}  // namespace stagecraft
