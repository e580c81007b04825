#pragma once

#include <string>
#include <vector>

#include "libsim/validation/data_file.hpp"

namespace stagecraft {

/// Reads the data files that a command line names.
/// \throws CommandLineError  if there are none.
/// \throws ConfigError  with the problems of all files.
std::vector<DataFile> read_data_files(std::vector<std::string> const& paths);

}  // namespace stagecraft
