#pragma once

#include <cstddef>

namespace stagecraft {

/// Whether tests of many cases of one kind take a part of them (CMake's SMALLER_LONG_TESTS, which
/// the preset asan sets): a sanitizer sees the same code in each, and needs many times as long.
#ifdef STAGECRAFT_SMALLER_LONG_TESTS
inline constexpr bool smaller_long_tests = true;
#else
inline constexpr bool smaller_long_tests = false;
#endif

/// The distance between the cases that a long test takes: `smaller` in such a build, otherwise 1.
constexpr std::size_t case_step(std::size_t smaller) { return smaller_long_tests ? smaller : 1; }

}  // namespace stagecraft
