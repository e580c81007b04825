#pragma once

namespace stagecraft {

/// How a part of a microbatch changes what its stage holds, in a unit of the caller's choice.
struct MemoryChanges {
  double forward = 1;
  double input_gradient = 0;
  double weight_gradient = -1;
};

/// \throws ScheduleError  unless a forward adds, a weight gradient does not, and what a microbatch
///         adds it takes away.
void check_memory(MemoryChanges const& memory);

}  // namespace stagecraft
