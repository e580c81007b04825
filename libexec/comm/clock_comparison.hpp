#pragma once

#include <chrono>
#include <cstdint>
#include <functional>

namespace stagecraft {

/// How often a process asks another for the time.
inline constexpr int time_questions = 20;

/// This process's steady clock, in nanoseconds.
std::int64_t nanoseconds_now();

/// What to add to this process's steady clock to have another's, which `ask` asks: the answer that
/// took the shortest time is taken, and taken to be of the middle of that time.
std::chrono::nanoseconds offset_of_clock(std::function<std::int64_t()> const& ask);

}  // namespace stagecraft
