#include "libsim/fit/fold.hpp"

#include <cstdint>

namespace stagecraft {

int fold_of(std::string_view group) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (char const byte : group) {
    hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001b3;
  }
  return static_cast<int>((hash >> 32U) % fold_count);
}

}  // namespace stagecraft
