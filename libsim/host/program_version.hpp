#pragma once

#include <string>

namespace stagecraft {

/// The version, the git commit, and whether tracked files differed from it at the build:
/// `0.1.0 (commit 0123456789ab, modified)`.
std::string program_version();

/// Compiler and build type: `GNU 12.2.0 Release`.
std::string build_features();

}  // namespace stagecraft
