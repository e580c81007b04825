#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "libsim/run/run_variants.hpp"
#include "libsim/sweep/condition.hpp"
#include "libsim/sweep/sweep_filter.hpp"

namespace stagecraft {

/// A value of an axis: what it sets, and how the sweep file writes it.
struct SweepEntry {
  std::string label;
  Place place;
  std::vector<Setting> settings;     ///< files that they name in place
  std::vector<std::string> written;  ///< of each setting: its value as one line of text
};

/// One way in which the points of a sweep differ: a key with its values, or a group of keys that
/// move together with its cases.
struct SweepAxis {
  std::string name;  ///< the key, dotted, or the group's name
  bool is_group = false;
  std::vector<SweepEntry> entries;
};

/// A cross product of axes over a base run, less what its conditions exclude.
///
/// Points are numbered as an odometer counts: the last axis moves fastest. Groups come before keys,
/// each in the order of the file.
struct Sweep {
  std::string origin;  ///< the sweep file as the user named it
  std::string text;    ///< the sweep file, as YAML in one line
  RunVariants runs;
  std::vector<SweepAxis> axes;
  SweepFilter filter;
  std::int64_t points = 0;  ///< of the whole cross product
  /// SHA-256 of everything that decides what the points are: the contents of all files. Not of the
  /// program that evaluates them.
  std::string fingerprint;
};

/// The entry of each axis that a point has. Pre: 0 <= point < points.
void choose_entries(std::vector<SweepAxis> const& axes,
                    std::int64_t point,
                    std::vector<std::size_t>& entries);

/// Whether a point with these entries meets the conditions.
/// \throws ConfigError  naming the point, where one of them divides by zero there.
bool takes_part(Sweep const& sweep, std::vector<std::size_t> const& entries);

/// The run of a point. \throws ConfigError  where it is impossible.
RunConfig run_of(Sweep const& sweep, std::vector<std::size_t> const& entries);

/// `parallel.tensor=4, recompute=full`.
std::string settings_text(std::vector<SweepAxis> const& axes,
                          std::vector<std::size_t> const& entries);

}  // namespace stagecraft
