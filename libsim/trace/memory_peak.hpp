#pragma once

#include <cstdint>

#include "libsim/program/category_bytes.hpp"
#include "libsim/trace/trace.hpp"

namespace stagecraft {

/// What a rank held at its peak: the first row whose sum without workspace is largest, with
/// the largest workspace of any row. All values are zero if there are no rows.
struct MemoryPeak {
  std::int64_t time = 0;  ///< ps since the start of the iteration
  CategoryBytes at_peak;
};

MemoryPeak peak_of(MemoryColumns const& memory);

}  // namespace stagecraft
