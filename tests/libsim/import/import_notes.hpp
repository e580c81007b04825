#pragma once

#include <algorithm>
#include <string>
#include <vector>

namespace stagecraft {

/// Whether a note of an import contains `part`.
inline bool has_note(std::vector<std::string> const& notes, std::string const& part) {
  return std::any_of(notes.begin(), notes.end(),
                     [&](std::string const& note) { return note.find(part) != std::string::npos; });
}

}  // namespace stagecraft
