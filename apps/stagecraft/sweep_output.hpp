#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "libsim/hdf5/column_file.hpp"

namespace stagecraft {

/// What a sweep, or the merging of one, has come to.
struct SweepOutcome {
  ColumnFile table{};
  std::filesystem::path output{};
  std::filesystem::path csv{};  ///< empty: none
  std::int64_t points = 0;      ///< of the cross product
  std::int64_t excluded = 0;    ///< of those, by conditions
  std::int64_t computed = 0;    ///< rows that were not there before
  double seconds = 0;
  /// SweepJournal::warnings(); nothing where there was no journal: results say nothing of it.
  std::optional<std::map<std::string, std::int64_t>> warnings{};
};

/// Counts, and the fastest points that fit.
std::string sweep_summary(SweepOutcome const& outcome);

/// A line a warning, with the number of rows that it is about.
std::vector<std::string> warning_lines(SweepOutcome const& outcome);

/// The document of `sweep --json`, schema stagecraft.sweep/1.
nlohmann::ordered_json to_json(SweepOutcome const& outcome);

/// `90 s`, `3.2 h`, `11.6 days`.
std::string duration_text(double seconds);

}  // namespace stagecraft
