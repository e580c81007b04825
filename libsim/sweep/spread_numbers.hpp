#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>

namespace stagecraft {

/// The numbers below `size`, each once, spread evenly from the start: multiples of a step near the
/// golden section of the size.
class SpreadNumbers {
 public:
  explicit SpreadNumbers(std::int64_t size) : size_{size} {
    step_ = std::max<std::int64_t>(
        1, static_cast<std::int64_t>(0.6180339887 * static_cast<double>(size)));
    while (std::gcd(step_, size_) != 1) ++step_;
  }
  std::int64_t next() {
    std::int64_t const number = number_;
    number_ = number_ >= size_ - step_ ? number_ - (size_ - step_) : number_ + step_;
    return number;
  }

 private:
  std::int64_t size_;
  std::int64_t step_ = 1;
  std::int64_t number_ = 0;
};

}  // namespace stagecraft
