#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "libsim/run/run_variants.hpp"
#include "libsim/sweep/sweep_axis.hpp"
#include "libsim/sweep/sweep_filter.hpp"

namespace stagecraft {

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

/// Whether a point with these entries meets the conditions.
/// \throws ConfigError  naming the point, if one of them divides by zero there.
bool takes_part(Sweep const& sweep, std::vector<std::size_t> const& entries);

/// The run of a point. \throws ConfigError  if it is impossible.
RunConfig run_of(Sweep const& sweep, std::vector<std::size_t> const& entries);

}  // namespace stagecraft
