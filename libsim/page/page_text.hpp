#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace stagecraft {

// Numbers for people, with a unit that fits and non-breaking spaces.

/// Converts picoseconds to seconds.
double seconds(std::int64_t picoseconds);

/// "13.84 s", "10.5 ms", "72.5 µs".
std::string time_text(double seconds);

/// "60.13 GiB", "4.98 MiB".
std::string bytes_text(std::int64_t bytes);

/// `part` of `whole`: "7.6 %", or "less than 0.1 %" if it is small but not zero.
std::string percent_text(double part, double whole);

/// A number with separators: "14,217".
std::string grouped(double number);

/// Escapes text for an element or for an attribute in double quotes: nothing in it is markup.
/// Bytes that are not UTF-8 are replaced.
std::string html_text(std::string_view text);

/// Escapes JSON text for a script element: no sequence in it can end the element.
std::string script_json(std::string const& json);

/// Fills the {{places}} of a skeleton in one pass, so that inserted text is not searched again.
/// Pre: all of them are in `places`.
std::string filled(std::string_view skeleton,
                   std::map<std::string_view, std::string> const& places);

}  // namespace stagecraft
