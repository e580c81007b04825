#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "libsim/hardware/system.hpp"
#include "libsim/training/training_config.hpp"
#include "libsim/units/units.hpp"

namespace stagecraft {

/// Whether a stage fits into the memory that it has.
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

/// The largest peak, workspace included, that fits by counted bytes: the accelerator's memory less
/// the reserve. The difference to a stage's peak is its free memory.
inline Bytes room_for(MemoryConfig const& memory, Accelerator const& accelerator) {
  return accelerator.memory.value - memory.kept_in_reserve();
}

}  // namespace stagecraft
