#include "libsim/schedule/orders/memory_changes.hpp"

#include <cmath>

#include "libsim/schedule/orders/schedule_error.hpp"

namespace stagecraft {

void check_memory(MemoryChanges const& memory) {
  double const left = memory.forward + memory.input_gradient + memory.weight_gradient;
  bool const ends_empty = std::abs(left) <= 1e-9 * memory.forward;
  if (memory.forward > 0 && memory.weight_gradient <= 0 && ends_empty) return;
  throw ScheduleError{"memory", "changes that no microbatch makes",
                      "f above 0, w not above 0, and f + i + w = 0"};
}

}  // namespace stagecraft
