#pragma once

#include <chrono>
#include <compare>
#include <cstdint>

namespace stagecraft {

/// Simulated (or measured) time since the start of a run, in integer picoseconds, so that ties are
/// exact and runs reproduce. Range: about 106 days.
using SimTime = std::chrono::duration<std::int64_t, std::pico>;

/// Rounds a duration in seconds to the nearest picosecond. Pre: |seconds| < 9e6.
SimTime to_sim_time(double seconds);

/// A simulated time in seconds.
constexpr double to_seconds(SimTime time) { return static_cast<double>(time.count()) * 1e-12; }

/// A count of bytes. Conversions are explicit, so it never mixes with elements, FLOPs or bits.
class Bytes {
 public:
  constexpr Bytes() = default;
  explicit constexpr Bytes(std::int64_t count) : count_{count} {}
  constexpr std::int64_t count() const { return count_; }

  constexpr Bytes& operator+=(Bytes other) {
    count_ += other.count_;
    return *this;
  }
  constexpr Bytes& operator-=(Bytes other) {
    count_ -= other.count_;
    return *this;
  }

  friend constexpr auto operator<=>(Bytes, Bytes) = default;
  friend constexpr Bytes operator+(Bytes a, Bytes b) { return Bytes{a.count_ + b.count_}; }
  friend constexpr Bytes operator-(Bytes a, Bytes b) { return Bytes{a.count_ - b.count_}; }
  friend constexpr Bytes operator*(std::int64_t n, Bytes b) { return Bytes{n * b.count_}; }

 private:
  std::int64_t count_ = 0;
};

/// A rate of data, in bytes per second.
struct BytesPerSecond {
  double value = 0;
  friend constexpr auto operator<=>(BytesPerSecond, BytesPerSecond) = default;
};

/// A rate of arithmetic, in floating-point operations per second.
struct FlopsPerSecond {
  double value = 0;
  friend constexpr auto operator<=>(FlopsPerSecond, FlopsPerSecond) = default;
};

/// A duration as a real number of seconds, in which cost formulas are computed.
struct Seconds {
  double value = 0;
  friend constexpr auto operator<=>(Seconds, Seconds) = default;
};

/// The time that the payload takes, without latency. Pre: rate > 0.
constexpr Seconds operator/(Bytes size, BytesPerSecond rate) {
  return Seconds{static_cast<double>(size.count()) / rate.value};
}

}  // namespace stagecraft
