#pragma once

#include <cstdint>
#include <string_view>

#include "libsim/import/frameworks/framework_import.hpp"
#include "libsim/training/sharding.hpp"

namespace stagecraft {

/// Writes the sharding with which a ZeRO stage of DeepSpeed is predicted. `key` is the file's key for
/// the stage. Each stage is a kind of its own: 4 + 12 / N, 2 + 14 / N and 16 / N bytes of a
/// parameter on N ranks. Reports a stage that does not exist.
/// Source: deepspeed/runtime/zero/{stage_1_and_2,stage3}.py.
void write_zero_stage(FrameworkKeys& keys,
                      std::string_view key,
                      std::int64_t stage,
                      FrameworkRun& run);

/// The kind of sharding in the run's section of that name; none if that is empty.
ShardingTraits const& sharding_traits(FrameworkRun& run);

/// Writes or leaves out what goes to the host, `key` being where the file says so. Optimizer state
/// goes there if it is a distributed optimizer's and the system says what its hosts are.
/// Pre: the run has a section `sharding`, and the file the key.
void offload_optimizer(FrameworkKeys& keys,
                       std::string_view key,
                       FrameworkOptions const& options,
                       FrameworkRun& run);
void leave_out_offloaded_parameters(FrameworkKeys& keys, std::string_view key);

}  // namespace stagecraft
