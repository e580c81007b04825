#pragma once

#include <cstdint>

namespace stagecraft {

/// Bits that depend on every bit of a number (the end of splitmix64; Steele, Lea and Flood 2014).
constexpr std::uint64_t scrambled(std::uint64_t number) {
  number = (number ^ (number >> 30U)) * 0xbf58476d1ce4e5b9;
  number = (number ^ (number >> 27U)) * 0x94d049bb133111eb;
  return number ^ (number >> 31U);
}

/// One number for a sequence of numbers: different sequences share it by a chance of 2^-64.
class Fingerprint {
 public:
  void add(std::int64_t number) {
    value_ = scrambled(value_ + static_cast<std::uint64_t>(number) + 0x9e3779b97f4a7c15);
  }
  std::uint64_t value() const { return value_; }

 private:
  std::uint64_t value_ = 0;
};

/// One number for a set of buffers and of where each of them lies, which may be moved in time:
/// fingerprints are equal if the places are, and the numbers of the buffers relative to `origin`.
class BufferPlaces {
 public:
  void add(std::int64_t address, std::int64_t size, std::int64_t buffer) {
    std::uint64_t const weight = weight_of(address, size);
    weights_ += weight;
    products_ += weight * static_cast<std::uint64_t>(buffer);
  }
  void remove(std::int64_t address, std::int64_t size, std::int64_t buffer) {
    std::uint64_t const weight = weight_of(address, size);
    weights_ -= weight;
    products_ -= weight * static_cast<std::uint64_t>(buffer);
  }
  /// All buffers have numbers that are larger by so much.
  void move(std::int64_t buffers) { products_ += weights_ * static_cast<std::uint64_t>(buffers); }
  void clear() { *this = {}; }

  void add_to(Fingerprint& fingerprint, std::int64_t origin) const {
    fingerprint.add(static_cast<std::int64_t>(weights_));
    fingerprint.add(
        static_cast<std::int64_t>(products_ - weights_ * static_cast<std::uint64_t>(origin)));
  }

 private:
  static std::uint64_t weight_of(std::int64_t address, std::int64_t size) {
    return scrambled(static_cast<std::uint64_t>(address) * 0x9e3779b97f4a7c15 +
                     static_cast<std::uint64_t>(size));
  }

  std::uint64_t weights_ = 0;
  std::uint64_t products_ = 0;  ///< of weights and numbers of buffers
};

}  // namespace stagecraft
