#pragma once

#include <cstdint>
#include <optional>

#include "libsim/import/frameworks/framework_import.hpp"

namespace stagecraft {

/// The number of replicas of a job: its ranks divided by the ranks of a replica. If the world size
/// is unknown or is not a multiple, reports that at `key` and returns nullopt.
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
