#pragma once

#include <filesystem>

#include "libsim/sweep/sweep.hpp"

namespace stagecraft {

/// Reads a sweep file.
///
///     base: ../paper/175b-present.yaml   # a run file, or its keys in place
///     cases:                             # groups of keys that move together
///       strategy:                        # the name of a column that holds the case's name
///         full: {recompute: full, parallel.sequence: false}
///         present: {recompute: selective, parallel.sequence: true}
///     values:                            # keys of a run file, dotted, each with a list
///       parallel.tensor: [2, 4, 8]
///       model: [../models/gpt-22b.yaml, ../models/gpt3-175b.yaml]
///     where:                             # conditions, all of which a point must meet
///       - parallel.tensor * parallel.pipeline <= 64
///
/// Files are named relative to the file that names them. A later axis is set after an earlier one;
/// the same key cannot be set by two. Nothing is simulated, and no point looked at.
/// \throws ConfigError  with every problem: unknown keys and values that cannot be read included,
///     whichever axis they are on.
Sweep load_sweep(std::filesystem::path const& path);

}  // namespace stagecraft
