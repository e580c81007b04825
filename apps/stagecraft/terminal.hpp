#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "libsim/report/pipeline_picture.hpp"

namespace stagecraft {

/// Whether the items of a command's work take about as long each, so that what is done says how
/// much time is left.
enum class Pace : std::uint8_t { even, uneven };

/// The progress of a long command on standard error: how much is done, its rate, and the remaining
/// time or, at an uneven pace, the time so far. On a terminal that is a bar that is drawn over and
/// over; elsewhere, as in a job's log, a note every ten seconds, so that a command that is done
/// before writes none.
class ProgressBar {
 public:
  explicit ProgressBar(Pace pace = Pace::even);
  ProgressBar(ProgressBar const&) = delete;
  ProgressBar(ProgressBar&&) = delete;
  ProgressBar& operator=(ProgressBar const&) = delete;
  ProgressBar& operator=(ProgressBar&&) = delete;
  /// Clears the line.
  ~ProgressBar();

  /// `done`: share of this part, 0 to 1; each part has its own name. `count`: what the rate counts,
  /// in units of `unit`. Writes only a few times per second, or every ten seconds.
  void show(std::string const& part, double done, double count, std::string const& unit);

 private:
  using Clock = std::chrono::steady_clock;
  Pace pace_;
  bool is_on_terminal_;
  bool is_shown_ = false;
  std::string part_;
  double first_done_ = 0;  ///< what was done before this part was first shown
  double first_count_ = 0;
  Clock::time_point const start_ = Clock::now();
  Clock::time_point begin_;
  Clock::time_point shown_at_ = Clock::now();
};

/// The style of standard output. Its width is COLUMNS of the environment, or the terminal's, or
/// 100. It has colour on a terminal that is not dumb, unless NO_COLOR is set (no-color.org).
TextStyle standard_output_style();

}  // namespace stagecraft
