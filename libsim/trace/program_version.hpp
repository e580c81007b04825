#pragma once

#include <string_view>

namespace stagecraft {

/// Version, git commit and whether the source was modified, as they were when the build was
/// configured: `0.1.0 (commit 0123456789ab, modified)`.
std::string_view program_version();

}  // namespace stagecraft
