#pragma once

#include <cstdint>

namespace stagecraft::test {

/// Calls of operator new in this program so far, by any thread.
std::int64_t allocation_count();

}  // namespace stagecraft::test
