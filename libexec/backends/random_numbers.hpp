#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "libexec/backends/backend.hpp"
#include "libsim/model/tensor.hpp"

namespace stagecraft {

/// Uniform random numbers in [-1/2, 1/2), by counter; what is measured is never measured on zeros,
/// which make devices faster than a model does.
class RandomNumbers {
 public:
  RandomNumbers(ElementType type, std::uint32_t seed);

  /// Fills memory of the device; what is longer than 65,536 numbers repeats them.
  void write(Backend& backend, void* device, std::size_t bytes) const;

 private:
  std::vector<std::byte> bytes_;
};

}  // namespace stagecraft
