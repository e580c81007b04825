#include "libsim/trace/trace.hpp"

namespace stagecraft {

void OpColumns::resize(std::size_t rows) {
  for (OpColumn const& column : op_columns) (this->*column.column).resize(rows);
}

void MemoryColumns::resize(std::size_t rows) {
  time.resize(rows);
  for (TraceColumn& column : bytes) column.resize(rows);
  if (!reserved.empty()) reserved.resize(rows);
}

}  // namespace stagecraft
