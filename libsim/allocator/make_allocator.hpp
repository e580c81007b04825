#pragma once

#include <cstdint>
#include <memory>

#include "libsim/allocator/allocator.hpp"
#include "libsim/allocator/allocator_settings.hpp"

namespace stagecraft {

/// The allocator of a device of `capacity` bytes. `pytorch` with backend:cudaMallocAsync among its
/// settings is cuda_async, which ignores all others, and so does `arena`.
std::unique_ptr<Allocator> make_allocator(AllocatorKind kind,
                                          AllocatorSettings const& settings,
                                          std::int64_t capacity);

}  // namespace stagecraft
