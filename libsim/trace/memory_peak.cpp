#include "libsim/trace/memory_peak.hpp"

#include <algorithm>
#include <cstddef>

namespace stagecraft {

MemoryPeak peak_of(MemoryColumns const& memory) {
  MemoryPeak result;
  std::int64_t peak = -1;
  std::int64_t workspace = 0;
  for (std::size_t row = 0; row < memory.rows(); ++row) {
    workspace = std::max(workspace, memory.of(Category::workspace)[row]);
    std::int64_t sum = -memory.of(Category::workspace)[row];
    for (TraceColumn const& column : memory.bytes) sum += column[row];
    if (sum <= peak) continue;
    peak = sum;
    result.time = memory.time[row];
    for (std::size_t i = 0; i < memory.bytes.size(); ++i) {
      result.at_peak[static_cast<Category>(i)] = memory.bytes[i][row];
    }
  }
  result.at_peak[Category::workspace] = workspace;
  return result;
}

}  // namespace stagecraft
