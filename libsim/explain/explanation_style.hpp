#pragma once

namespace stagecraft {

/// How wide and how detailed the text of an explanation is.
struct ExplanationStyle {
  int width = 100;         ///< characters per line; wider tables have more columns
  bool shows_all = false;  ///< every tensor, and the changes that are not legal or have no effect
};

}  // namespace stagecraft
