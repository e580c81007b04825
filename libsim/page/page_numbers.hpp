#pragma once

#include <cstdint>
#include <string>

namespace stagecraft {

// Numbers for people, in the unit that fits, their parts held together by spaces that do not break.

/// Picoseconds in seconds.
double seconds(std::int64_t picoseconds);

/// "13.84 s", "10.5 ms", "72.5 µs".
std::string time_text(double seconds);

/// "60.13 GiB", "4.98 MiB".
std::string bytes_text(std::int64_t bytes);

/// `part` of `whole`: "7.6 %"; of what is not nothing at least "less than 0.1 %".
std::string percent_text(double part, double whole);

/// "14,217".
std::string grouped(double number);

}  // namespace stagecraft
