#pragma once

#include <string>
#include <vector>

#include "libsim/validation/data_file.hpp"

namespace stagecraft {

/// The exit code where no row could be used.
inline constexpr int all_rows_failed = 1;

/// Reads the data files that a command line names.
/// \throws CommandLineError  if there are none.
/// \throws ConfigError  with the problems of all files.
std::vector<DataFile> read_data_files(std::vector<std::string> const& paths);

}  // namespace stagecraft
