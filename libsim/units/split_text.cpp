#include "libsim/units/split_text.hpp"

#include <algorithm>
#include <cstddef>

namespace stagecraft {

std::vector<std::string_view> split_text(std::string_view text, std::string_view separator) {
  std::vector<std::string_view> parts;
  for (std::size_t from = 0; from <= text.size();) {
    std::size_t const end = std::min(text.find(separator, from), text.size());
    parts.push_back(text.substr(from, end - from));
    from = end + separator.size();
  }
  return parts;
}

}  // namespace stagecraft
