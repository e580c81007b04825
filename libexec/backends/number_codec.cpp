#include "libexec/backends/number_codec.hpp"

#include <cstring>

#include "libexec/kernels/element.hpp"

namespace stagecraft {

std::vector<std::byte> encode(std::span<double const> numbers, ElementType type) {
  std::vector<std::byte> bytes(numbers.size() * static_cast<std::size_t>(element_size(type)));
  with_storage_type(OpKind::hold, type, [&]<typename Stored>(Stored) {
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      Stored const stored = narrow<Stored>(static_cast<Compute<Stored>>(numbers[i]));
      std::memcpy(bytes.data() + i * sizeof(Stored), &stored, sizeof(Stored));
    }
  });
  return bytes;
}

std::vector<double> decode(std::span<std::byte const> bytes, ElementType type) {
  std::vector<double> numbers(bytes.size() / static_cast<std::size_t>(element_size(type)));
  with_storage_type(OpKind::hold, type, [&]<typename Stored>(Stored) {
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      Stored stored;
      std::memcpy(&stored, bytes.data() + i * sizeof(Stored), sizeof(Stored));
      numbers[i] = static_cast<double>(widen(stored));
    }
  });
  return numbers;
}

}  // namespace stagecraft
