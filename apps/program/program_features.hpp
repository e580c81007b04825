#pragma once

#include <string>

namespace stagecraft {

/// Compiler, build type, and the HDF5 library in use: `GNU 12.2.0 Release, HDF5 1.10.8 with
/// deflate`.
std::string program_features();

}  // namespace stagecraft
