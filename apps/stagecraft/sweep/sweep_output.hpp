#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "apps/stagecraft/sweep/sweep_options.hpp"
#include "libsim/hdf5/column_file.hpp"

namespace stagecraft {

/// The outcome of a sweep, or of merging shards.
struct SweepOutcome {
  ColumnFile table{};
  std::filesystem::path output{};
  std::filesystem::path csv{};  ///< empty: none
  std::int64_t points = 0;      ///< of the cross product
  std::int64_t excluded = 0;    ///< of those, by conditions
  std::int64_t computed = 0;    ///< rows that were not in the journal
  double seconds = 0;
  /// SweepJournal::warnings(); nullopt if there was no journal, because results do not have them.
  std::optional<std::map<std::string, std::int64_t>> warnings{};
};

/// Counts, and the best points that fit.
std::string sweep_summary(SweepOutcome const& outcome, SweepRank rank);

/// One line per warning, with the number of rows that have it.
std::vector<std::string> warning_lines(SweepOutcome const& outcome);

/// The document of `sweep --json`, schema stagecraft.sweep/1.
nlohmann::ordered_json to_json(SweepOutcome const& outcome, SweepRank rank);

/// `90 s`, `3.2 h`, `11.6 days`.
std::string duration_text(double seconds);

}  // namespace stagecraft
