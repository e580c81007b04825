#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "libsim/run/run_variants.hpp"

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

/// Finds a point's entry on each axis. Pre: 0 <= point < points.
void choose_entries(std::vector<SweepAxis> const& axes,
                    std::int64_t point,
                    std::vector<std::size_t>& entries);

/// The settings of a point in one text: `parallel.tensor=4, recompute=full`.
std::string settings_text(std::vector<SweepAxis> const& axes,
                          std::vector<std::size_t> const& entries);

}  // namespace stagecraft
