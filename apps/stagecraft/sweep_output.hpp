#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "libsim/trace/column_file.hpp"

namespace stagecraft {

/// What a sweep, or the merging of one, has come to.
struct SweepOutcome {
  ColumnFile table;
  std::filesystem::path output;
  std::filesystem::path csv;  ///< empty: none
  std::int64_t points = 0;    ///< of the cross product
  std::int64_t excluded = 0;  ///< of those, by conditions
  std::int64_t computed = 0;  ///< rows that were not there before
  double seconds = 0;
};

/// Counts, and the fastest points that fit.
std::string sweep_summary(SweepOutcome const& outcome);

/// The document of `sweep --json`, schema stagecraft.sweep/1.
nlohmann::ordered_json to_json(SweepOutcome const& outcome);

/// `90 s`, `3.2 h`, `11.6 days`.
std::string duration_text(double seconds);

}  // namespace stagecraft
