#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "libexec/backends/backend.hpp"
#include "libsim/program/tensor.hpp"

namespace stagecraft {

/// Encodes numbers as a tensor of an element type stores them, rounded to nearest, ties to even; to
/// 16 bits through fp32, as master copies are narrowed.
std::vector<std::byte> encode(std::span<double const> numbers, ElementType type);
/// The inverse, which is exact.
std::vector<double> decode(std::span<std::byte const> bytes, ElementType type);

/// Uniform random numbers in [-1/2, 1/2) times a scale, from a counter, as operands for
/// measurements: on zeros, devices are faster than in a model.
class RandomNumbers {
 public:
  RandomNumbers(ElementType type, std::uint32_t seed, double scale = 1);

  /// Fills memory of the device. The numbers repeat after 65,536. Waits for the compute stream
  /// once, before it copies what it wrote.
  void write(Backend& backend, void* device, std::size_t bytes) const;

 private:
  std::vector<std::byte> bytes_;
};

}  // namespace stagecraft
