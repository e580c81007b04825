#include "libsim/config/opening.hpp"

#include <system_error>

namespace stagecraft {

std::string why_not_opened(std::filesystem::path const& path, int error) {
  std::string const text = path.string();
  std::string why = error != 0 ? std::generic_category().message(error) : "unknown reason";
  if (path.is_relative()) {
    std::error_code ignored;
    why += "; looked for in " + std::filesystem::current_path(ignored).string();
  }
  if (text.starts_with("~") || text.find("/~") != std::string::npos) {
    why += "; only a shell expands '~', at the start of a word without quotes";
  } else if (text.find('$') != std::string::npos) {
    why += "; only a shell expands variables";
  }
  return " (" + why + ")";
}

}  // namespace stagecraft
