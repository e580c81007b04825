#pragma once

#include <chrono>
#include <string>

namespace stagecraft {

/// A line on standard error with the progress of a long command, its rate and the remaining time.
/// Nothing is written unless standard error is a terminal.
class ProgressBar {
 public:
  ProgressBar();
  ProgressBar(ProgressBar const&) = delete;
  ProgressBar(ProgressBar&&) = delete;
  ProgressBar& operator=(ProgressBar const&) = delete;
  ProgressBar& operator=(ProgressBar&&) = delete;
  /// Clears the line.
  ~ProgressBar();

  /// `done`: share of this part, 0 to 1; each part has its own name. `count`: what the rate counts,
  /// in units of `unit`. Writes only a few times per second.
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
