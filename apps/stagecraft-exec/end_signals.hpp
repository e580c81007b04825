#pragma once

#include <atomic>

namespace stagecraft {

/// While it lives, the first SIGINT or SIGTERM does not end the process but is noted, and says on
/// standard error that the run ends after its iteration; a second one ends the process at once.
/// There may be one at a time.
class EndSignals {
 public:
  EndSignals();
  ~EndSignals();
  EndSignals(EndSignals const&) = delete;
  EndSignals(EndSignals&&) = delete;
  EndSignals& operator=(EndSignals const&) = delete;
  EndSignals& operator=(EndSignals&&) = delete;

  /// The signal that came; 0 if none did.
  std::atomic<int> const& noted() const;
};

}  // namespace stagecraft
