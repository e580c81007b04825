#pragma once

#include <cstdint>
#include <optional>

#include "libsim/import/frameworks/framework_import.hpp"

namespace stagecraft {

/// The replicas of a job: its ranks over those that run one replica.
/// Reports a world size that is unknown or does not divide, at `key`, where the file says it or
/// could; then nullopt.
std::optional<std::int64_t> replicas_of(FrameworkKeys& keys,
                                        std::string_view key,
                                        std::optional<std::int64_t> world_size,
                                        std::int64_t ranks_of_replica);

/// Writes the section `batch`.
void write_batch(FrameworkRun& run,
                 std::int64_t micro_batch,
                 std::int64_t accumulation,
                 std::int64_t replicas);

}  // namespace stagecraft
