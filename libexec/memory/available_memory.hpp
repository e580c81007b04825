#pragma once

#include <filesystem>
#include <optional>

#include "libsim/units/units.hpp"

namespace stagecraft {

/// The memory that this process can still allocate before the kernel ends it: MemAvailable of
/// /proc/meminfo, or the limit of the process's cgroup or one of its ancestors if that is lower.
/// Returns nullopt if the system reports neither. `root`: the folder of the system's files.
/// Sources: proc(5); Linux, Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/memory.rst.
std::optional<Bytes> available_memory(std::filesystem::path const& root = "/");

}  // namespace stagecraft
