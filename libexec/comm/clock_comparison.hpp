#pragma once

#include <chrono>
#include <cstdint>
#include <functional>

namespace stagecraft {

/// How often a process asks another process for the time.
inline constexpr int time_questions = 20;

/// This process's steady clock, in nanoseconds.
std::int64_t nanoseconds_now();

/// The offset from this process's steady clock to that of another process, whose time `ask`
/// returns. Uses the answer with the shortest round trip, and assumes that it is the time at the
/// middle of that round trip.
std::chrono::nanoseconds offset_of_clock(std::function<std::int64_t()> const& ask);

}  // namespace stagecraft
