#pragma once

namespace stagecraft {

/// How each pass of a microbatch changes the memory of its stage, in a unit of the caller's choice.
struct MemoryChanges {
  double forward = 1;
  double input_gradient = 0;
  double weight_gradient = -1;
};

/// \throws ScheduleError  unless a forward adds memory, a weight gradient does not, and the changes
/// of a microbatch sum to 0.
void check_memory(MemoryChanges const& memory);

}  // namespace stagecraft
