#pragma once

#include <string>

namespace stagecraft {

/// Version, git commit, and whether tracked files differed from it when this library was built:
/// `0.1.0 (commit 0123456789ab, modified)`.
std::string program_version();

/// Compiler, build type, and the HDF5 library in use: `GNU 12.2.0 Release, HDF5 1.10.8 with
/// deflate`.
std::string program_features();

}  // namespace stagecraft
