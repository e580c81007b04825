#pragma once

#include <string>

namespace stagecraft {

/// The version, the git commit, and whether tracked files differed from it at the build:
/// `0.1.0 (commit 0123456789ab, modified)`.
std::string program_version();

/// The compiler, the build type, and the HDF5 library: `GNU 12.2.0 Release, HDF5 1.10.8 with
/// deflate`.
std::string program_features();

}  // namespace stagecraft
