#pragma once

#include <filesystem>
#include <optional>

#include "libsim/units/units.hpp"

namespace stagecraft {

/// Memory of this machine that a process could still take before the kernel ends it: MemAvailable
/// of /proc/meminfo or, where lower, the limit of the process's cgroup or of one above. Nothing
/// where the system says neither. `root`: where the system's files are.
/// Sources: proc(5); Linux, Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/memory.rst.
std::optional<Bytes> available_memory(std::filesystem::path const& root = "/");

}  // namespace stagecraft
