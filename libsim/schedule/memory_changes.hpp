#pragma once

namespace stagecraft {

/// How a part of a microbatch changes what its rank holds, in a unit of the caller's choice.
struct MemoryChanges {
  double forward = 1;
  double input_gradient = 0;
  double weight_gradient = -1;
};

}  // namespace stagecraft
