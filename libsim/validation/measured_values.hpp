#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libsim/config/problem.hpp"

namespace stagecraft {

/// What was measured in a run; what was not is nullopt.
struct MeasuredValues {
  std::string id;     ///< need not be unique
  std::string group;  ///< of runs whose plans compete; empty: none
  double weight = 1;  ///< of the run in a fit
  std::optional<double> iteration_seconds;
  std::optional<std::int64_t> reserved_bytes;   ///< by the allocator, from the device
  std::optional<std::int64_t> allocated_bytes;  ///< of the reserved ones, to tensors
  std::optional<int> stage;                     ///< of the bytes; nullopt: the fullest
  std::optional<bool> fits;
};

/// The names of the columns that are not keys of a run file.
std::vector<std::string> const& measured_columns();

/// Whether a column of this name holds something that was measured.
bool is_measurement(std::string_view column);

/// Reads one cell of a column of measured_columns() into `values`; an empty cell says nothing.
/// Reports what it cannot read at `place`.
void read_measured_value(std::string_view column,
                         std::string const& text,
                         Place const& place,
                         MeasuredValues& values,
                         Diagnostics& diagnostics);

}  // namespace stagecraft
