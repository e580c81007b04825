#include "libsim/memory/configured_allocator.hpp"

#include "libsim/allocator/make_allocator.hpp"

namespace stagecraft {

std::unique_ptr<Allocator> configured_allocator(MemoryConfig const& memory, std::int64_t capacity) {
  Diagnostics diagnostics;  // the reader of the configuration has reported its problems
  AllocatorSettings const settings =
      read_allocator_settings(memory.allocator_settings, {}, "", diagnostics);
  return make_allocator(memory.allocator, settings, capacity);
}

}  // namespace stagecraft
