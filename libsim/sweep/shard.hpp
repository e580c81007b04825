#pragma once

#include <cstdint>
#include <string>

namespace stagecraft {

/// A part of a sweep: those of the included points whose number is `number - 1` modulo `count`, so
/// that all parts have similar work whatever the axes are.
struct Shard {
  int number = 1;  ///< from 1
  int count = 1;

  bool has(std::int64_t ordinal) const { return ordinal % count == number - 1; }
  /// How many of so many points belong to this shard.
  std::int64_t size_of(std::int64_t points) const {
    return points / count + (points % count >= number ? 1 : 0);
  }
  std::string text() const { return std::to_string(number) + "/" + std::to_string(count); }
};

}  // namespace stagecraft
