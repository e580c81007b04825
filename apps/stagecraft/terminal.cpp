#include "apps/stagecraft/terminal.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <string_view>

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

TextStyle standard_output_style() {
  bool const has_colour = isatty(STDOUT_FILENO) == 1 && environment("NO_COLOR").empty() &&
                          environment("TERM") != "dumb";
  return {standard_output_width(), has_colour ? Colour::ansi : Colour::none};
}

}  // namespace stagecraft
