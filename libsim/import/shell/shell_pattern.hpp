#pragma once

#include <string>
#include <string_view>

namespace stagecraft {

/// Whether all of `text` matches a pattern of the shell: `*`, `?`, `[a-z]`, `[!a-z]`,
/// `[[:digit:]]`, and groups such as `@(a|b)`; a character behind a backslash stands for itself.
/// Source: POSIX.1-2017, Shell Command Language, section 2.13, and the manual of bash 5.2, section
/// 3.5.8.1.
bool matches_pattern(std::string_view text, std::string_view pattern);

/// A text as a pattern that matches this text alone.
std::string as_pattern(std::string_view text);

}  // namespace stagecraft
