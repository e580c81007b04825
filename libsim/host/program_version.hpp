#pragma once

#include <string>

namespace stagecraft {

/// Version, git commit, and whether tracked files differed from it when this library was built:
/// `0.1.0 (commit 0123456789ab, modified)`.
std::string program_version();

/// Compiler and build type: `GNU 12.2.0 Release`.
std::string build_features();

}  // namespace stagecraft
