#include "apps/stagecraft/plan/progress_bar.hpp"

#include <unistd.h>

#include <algorithm>
#include <iostream>

#include "libsim/report/text_table.hpp"

namespace stagecraft {

ProgressBar::ProgressBar() : is_on_terminal_{isatty(STDERR_FILENO) == 1} {}

ProgressBar::~ProgressBar() {
  if (is_shown_) std::cerr << "\r\x1b[K" << std::flush;
}

void ProgressBar::show(std::string const& part,
                       double done,
                       double count,
                       std::string const& unit) {
  Clock::time_point const now = Clock::now();
  bool const is_new = part != part_;
  if (is_new) {
    part_ = part;
    begin_ = now;
    first_done_ = done;
    first_count_ = count;
  }
  std::chrono::milliseconds const pause{is_on_terminal_ ? 100 : 10'000};
  if (now - shown_at_ < pause && !(is_new && is_on_terminal_)) return;
  shown_at_ = now;
  double const seconds = std::chrono::duration<double>(now - begin_).count();
  std::string reached = decimals(100 * done, 0) + " %";
  if (seconds > 0.2 && done > first_done_) {
    reached += ", " + decimals((count - first_count_) / seconds, 0) + " " + unit + "/s, " +
               decimals(seconds * (1 - done) / (done - first_done_), 0) + " s left";
  }
  if (!is_on_terminal_) {
    std::cerr << "note: " << part << " " << reached << '\n' << std::flush;
    return;
  }
  constexpr int width = 24;
  int const filled = std::clamp(static_cast<int>(done * width), 0, width);
  std::cerr << '\r' << part << " [" << std::string(static_cast<std::size_t>(filled), '#')
            << std::string(static_cast<std::size_t>(width - filled), '.') << "] " << reached
            << "\x1b[K" << std::flush;
  is_shown_ = true;
}

}  // namespace stagecraft
