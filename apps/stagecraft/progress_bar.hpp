#pragma once

#include <chrono>
#include <string>

namespace stagecraft {

/// One line on standard error that says how far a long command has come, at what rate, and how long
/// it will still take. On a terminal only; elsewhere nothing is written.
class ProgressBar {
 public:
  ProgressBar();
  ProgressBar(ProgressBar const&) = delete;
  ProgressBar(ProgressBar&&) = delete;
  ProgressBar& operator=(ProgressBar const&) = delete;
  ProgressBar& operator=(ProgressBar&&) = delete;
  /// Clears the line.
  ~ProgressBar();

  /// `done`: 0 to 1 of this part; a part that starts anew has another name. `count`: of what the
  /// rate is of. Writes a few times a second at most.
  void show(std::string const& part, double done, double count, std::string const& unit);

 private:
  using Clock = std::chrono::steady_clock;
  bool is_on_terminal_;
  bool is_shown_ = false;
  std::string part_;
  double first_count_ = 0;
  Clock::time_point begin_;
  Clock::time_point shown_at_;
};

}  // namespace stagecraft
