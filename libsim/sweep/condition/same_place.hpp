#pragma once

#include "libsim/config/problem.hpp"

namespace stagecraft {

/// Whether both are the same line and column of the same file or option. Places of unknown origin
/// are like no other.
inline bool is_same(Place const& a, Place const& b) {
  return a.line == b.line && a.column == b.column && a.origin && b.origin && *a.origin == *b.origin;
}

}  // namespace stagecraft
