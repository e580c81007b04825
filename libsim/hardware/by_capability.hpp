#pragma once

#include <iterator>
#include <map>

namespace stagecraft {

/// The value for a compute capability (its major number): that of the largest key that is not above
/// it; `otherwise` if there is none.
template <typename Value>
Value by_capability(std::map<int, Value> const& values, int capability, Value otherwise) {
  auto const above = values.upper_bound(capability);
  return above == values.begin() ? otherwise : std::prev(above)->second;
}

}  // namespace stagecraft
