#pragma once

#include "libsim/import/shell/shell_words.hpp"

namespace stagecraft {

/// The words that the braces of a written word make: `a{b,c}` and `{1..9..2}`; the word itself if
/// it has none outside quotes. At most 1000 words. Source: the manual of bash 5.2, section 3.5.1.
ShellWords in_braces(ShellWord const& written);

}  // namespace stagecraft
