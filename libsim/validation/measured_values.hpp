#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libsim/config/problem.hpp"

namespace stagecraft {

/// The measured values of a run; a value that was not measured is nullopt.
struct MeasuredValues {
  std::string id;     ///< need not be unique
  std::string group;  ///< runs of one group compete; empty: none
  double weight = 1;  ///< the weight of the run in a fit
  std::optional<double> iteration_seconds;
  std::optional<std::int64_t> reserved_bytes;   ///< what the allocator reserved from the device
  std::optional<std::int64_t> allocated_bytes;  ///< the most that tensors held of them
  std::optional<std::int64_t> first_allocated_bytes;  ///< the same until the first iteration ended
  std::optional<std::int64_t> resident_bytes;         ///< what tensors held between two iterations
  std::optional<int> stage;  ///< the stage whose bytes these are; nullopt: the fullest
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
