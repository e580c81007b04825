#include "libsim/program/op_attributes.hpp"

#include <algorithm>
#include <numeric>

namespace stagecraft {

std::int64_t GemmAttributes::output_elements() const {
  if (rows == nullptr) return shape.batch * shape.m * shape.n;
  if (!sums_rows()) {
    return std::accumulate(rows->begin(), rows->end(), std::int64_t{0}) * shape.n;
  }
  auto const idle = std::count(rows->begin(), rows->end(), 0);
  return (shape.batch - idle) * shape.m * shape.n;
}

}  // namespace stagecraft
