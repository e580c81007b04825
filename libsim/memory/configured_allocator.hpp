#pragma once

#include <cstdint>
#include <memory>

#include "libsim/allocator/allocator.hpp"
#include "libsim/training/training_config.hpp"

namespace stagecraft {

/// The allocator that section `memory` of a run names, on a device of `capacity` bytes.
/// Pre: the reader of the configuration has accepted its settings.
std::unique_ptr<Allocator> configured_allocator(MemoryConfig const& memory, std::int64_t capacity);

}  // namespace stagecraft
