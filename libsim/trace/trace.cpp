#include "libsim/trace/trace.hpp"

namespace stagecraft {

std::string_view name_of(TraceClock clock) {
  switch (clock) {
    case TraceClock::simulated:
      return "simulated";
    case TraceClock::wall:
      return "wall";
    case TraceClock::virtual_time:
      return "virtual";
    case TraceClock::solo:
      return "solo";
  }
  return "?";
}

void OpColumns::resize(std::size_t rows) {
  for (OpColumn const& column : op_columns) (this->*column.column).resize(rows);
}

void MemoryColumns::resize(std::size_t rows) {
  time.resize(rows);
  for (TraceColumn& column : bytes) column.resize(rows);
}

}  // namespace stagecraft
