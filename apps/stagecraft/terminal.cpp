#include "apps/stagecraft/terminal.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <string>
#include <string_view>

#include "libsim/report/text_table.hpp"

namespace stagecraft {

namespace {

std::string_view environment(char const* name) {
  char const* const value = std::getenv(name);
  return value == nullptr ? std::string_view{} : std::string_view{value};
}

int standard_output_width() {
  int const columns = std::atoi(std::string{environment("COLUMNS")}.c_str());
  if (columns > 0) return columns;
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  return TextStyle{}.width;
}

}  // namespace

ProgressBar::ProgressBar(Pace pace) : pace_{pace}, is_on_terminal_{isatty(STDERR_FILENO) == 1} {}

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
    reached += ", " + decimals((count - first_count_) / seconds, 0) + " " + unit + "/s, ";
    reached += pace_ == Pace::even
                   ? decimals(seconds * (1 - done) / (done - first_done_), 0) + " s left"
                   : decimals(std::chrono::duration<double>(now - start_).count(), 0) + " s so far";
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

TextStyle standard_output_style() {
  bool const has_colour = isatty(STDOUT_FILENO) == 1 && environment("NO_COLOR").empty() &&
                          environment("TERM") != "dumb";
  return {standard_output_width(), has_colour ? Colour::ansi : Colour::none};
}

}  // namespace stagecraft
