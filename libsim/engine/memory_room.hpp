#pragma once

#include "libsim/hardware/system.hpp"
#include "libsim/training/training_config.hpp"
#include "libsim/units/units.hpp"

namespace stagecraft {

/// What the peak of a stage may be, workspace added: the accelerator's memory less the reserve. A
/// stage has as much free as this is more than its peak, and does not fit by counted bytes if it is
/// less.
inline Bytes room_for(MemoryConfig const& memory, Accelerator const& accelerator) {
  return accelerator.memory.value - memory.kept_in_reserve();
}

}  // namespace stagecraft
