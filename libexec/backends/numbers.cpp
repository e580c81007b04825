#include "libexec/backends/numbers.hpp"

#include <algorithm>
#include <cstring>

#include "libexec/kernels/dropout.hpp"
#include "libexec/kernels/element.hpp"

namespace stagecraft {
namespace {

constexpr std::size_t drawn = std::size_t{1} << 16;
constexpr std::uint32_t stream = 0x50105010U;  ///< differs from parameters, masks and data

}  // namespace

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

RandomNumbers::RandomNumbers(ElementType type, std::uint32_t seed, double scale) {
  std::vector<double> numbers(drawn);
  for (std::size_t i = 0; i < drawn; ++i) {
    PhiloxBlock const words = philox({{static_cast<std::uint32_t>(i), 0, 0, 0}}, seed, stream);
    numbers[i] = (words.word[0] * 0x1p-32 - 0.5) * scale;
  }
  bytes_ = encode(numbers, type);
}

void RandomNumbers::write(Backend& backend, void* device, std::size_t bytes) const {
  auto* const target = static_cast<std::byte*>(device);
  std::size_t filled = std::min(bytes_.size(), bytes);
  backend.write(target, bytes_.data(), filled);
  // Only the host's copy waits for the device.
  while (filled < bytes) {
    std::size_t const more = std::min(filled, bytes - filled);
    backend.copy(target + filled, target, more);
    filled += more;
  }
}

}  // namespace stagecraft
