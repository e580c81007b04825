#include "libsim/report/spoken_name.hpp"

#include <algorithm>

namespace stagecraft {

std::string spoken(std::string name) {
  std::replace_if(
      name.begin(), name.end(), [](char c) { return c == '.' || c == '_'; }, ' ');
  return name;
}

}  // namespace stagecraft
