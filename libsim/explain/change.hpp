#pragma once

#include <string>
#include <vector>

namespace stagecraft {

/// A change to a run, which is tried on its own.
struct Change {
  std::string what;              ///< e.g. "recompute full, layer by layer"
  std::vector<std::string> set;  ///< KEY=VALUE, as --set takes them
  /// The choice of the run that this change reverts, e.g. "selective recompute (core attention)"; a
  /// choice is a setting that is not the default and should pay off. Empty if it reverts none.
  std::string undoes{};
  /// Changes of one family do the same on different stages; a table shows the fastest of those that
  /// fit and of those that do not. Empty: a family of its own.
  std::string family{};
};

}  // namespace stagecraft
