#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace stagecraft::emulation {

/// Cheap random numbers for the order in which things happen: SplitMix64 (Steele et al. 2014).
class RandomOrder {
 public:
  explicit RandomOrder(std::uint64_t seed) : state_{seed} {}

  std::uint64_t next() {
    std::uint64_t z = state_ += 0x9E3779B97F4A7C15U;
    z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27U)) * 0x94D049BB133111EBU;
    return z ^ (z >> 31U);
  }

  /// Of [0, count); count < 2^32.
  std::size_t below(std::size_t count) { return (next() >> 32U) * count >> 32U; }

  template <typename T>
  void shuffle(std::vector<T>& values) {
    for (std::size_t i = 0; i < values.size(); ++i) std::swap(values[i], values[below(i + 1)]);
  }

 private:
  std::uint64_t state_;
};

}  // namespace stagecraft::emulation
