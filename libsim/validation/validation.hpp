#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "libsim/run/run_variants.hpp"
#include "libsim/validation/data_file.hpp"

namespace stagecraft {

/// A row of a data file, with what is predicted of its run.
struct ValidatedRow {
  Place place;
  MeasuredValues measured;
  std::vector<Problem> problems;  ///< if there is any, nothing is predicted
  std::optional<double> predicted_seconds;
  /// Of the predicted time, before calibration (Prediction::relative_error).
  std::optional<double> relative_error;
  /// The interval in which the time lies with 80 %; nullopt if nothing stands behind it.
  std::optional<std::array<double, 2>> interval_seconds;
  /// Bytes are those of measured.stage, or the most of all stages if it is not given. Measured ones
  /// are predicted by the allocator's replay. If the stack does not say what its framework
  /// allocates, the allocated bytes are the counted peak, whether they were measured or not.
  std::optional<std::int64_t> predicted_allocated_bytes;
  std::optional<std::int64_t> predicted_reserved_bytes;
  std::optional<std::int64_t> predicted_first_allocated_bytes;
  std::optional<std::int64_t> predicted_resident_bytes;
  /// Whether every stage fits: by reserved bytes and bytes_outside(), if the stack says what its
  /// framework allocates; otherwise by counted bytes and memory.reserve.
  std::optional<bool> predicted_fits;
  std::vector<std::string> regimes;  ///< its value of each key of Validation::by

  /// predicted / measured time; nullopt if one of them is not known.
  std::optional<double> time_ratio() const;
};

/// A problem of a row as one line that begins with the row's place.
std::string problem_line(ValidatedRow const& row, Problem const& problem);

/// The rows of data files in their order, with predictions.
struct Validation {
  std::vector<std::string> by;  ///< keys whose values divide the rows into regimes
  std::vector<ValidatedRow> rows;
  std::map<std::string, std::int64_t> warnings;  ///< of runs, each with the number of its rows
};

/// Predicts every row of the files over `base`, on `jobs` threads, whose number does not change the
/// result. `progress` is called with the number of rows done, by one thread at a time.
///
/// A row that cannot be read or predicted has a problem, and does not keep the others from being
/// predicted.
/// \throws ConfigError  if a column is not a key (DataFile::check), or one of `by` is not.
Validation validate(std::vector<DataFile> const& files,
                    RunVariants const& base,
                    std::vector<std::string> const& by,
                    int jobs,
                    std::function<void(std::int64_t rows)> const& progress);

}  // namespace stagecraft
