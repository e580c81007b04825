#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "libsim/run/run_variants.hpp"
#include "libsim/sweep/condition.hpp"
#include "libsim/sweep/sweep_filter.hpp"

namespace stagecraft {

/// A value of an axis: the keys it sets, and their text in the sweep file.
struct SweepEntry {
  std::string label;
  Place place;
  std::vector<Setting> settings;     ///< with the contents of files that they name
  std::vector<std::string> written;  ///< the value of each setting as one line of text
};

/// One way in which the points of a sweep differ: a key with its values, or a group of keys that
/// vary together, with its cases.
struct SweepAxis {
  std::string name;  ///< the key, dotted, or the group's name
  bool is_group = false;
  std::vector<SweepEntry> entries;
};

/// A cross product of axes over a base run, without the points that its conditions exclude.
///
/// Points are numbered with the last axis varying fastest. Groups come before keys, each in the
/// order of the file.
struct Sweep {
  std::string origin;  ///< the sweep file as the user named it
  std::string text;    ///< the sweep file, as YAML in one line
  RunVariants runs;
  std::vector<SweepAxis> axes;
  SweepFilter filter;
  std::int64_t points = 0;  ///< of the whole cross product
  /// SHA-256 of everything that determines the points, with the contents of all files, but not of
  /// the program that evaluates them.
  std::string fingerprint;
};

/// Finds a point's entry on each axis. Pre: 0 <= point < points.
void choose_entries(std::vector<SweepAxis> const& axes,
                    std::int64_t point,
                    std::vector<std::size_t>& entries);

/// Whether a point with these entries meets the conditions.
/// \throws ConfigError  naming the point, if one of them divides by zero there.
bool takes_part(Sweep const& sweep, std::vector<std::size_t> const& entries);

/// The run of a point. \throws ConfigError  if it is impossible.
RunConfig run_of(Sweep const& sweep, std::vector<std::size_t> const& entries);

/// The settings of a point in one text: `parallel.tensor=4, recompute=full`.
std::string settings_text(std::vector<SweepAxis> const& axes,
                          std::vector<std::size_t> const& entries);

}  // namespace stagecraft
