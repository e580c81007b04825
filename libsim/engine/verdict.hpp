#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace stagecraft {

/// What becomes of a stage on the memory that it has.
enum class Verdict : std::uint8_t {
  fits,
  fits_with_retries,  ///< after the allocator has given its cache back to the device
  does_not_fit,
};

inline constexpr std::array<std::string_view, 3> verdict_names{"fits", "fits_with_retries",
                                                               "does_not_fit"};

constexpr std::string_view name_of(Verdict verdict) {
  return verdict_names[static_cast<std::size_t>(verdict)];
}

}  // namespace stagecraft
