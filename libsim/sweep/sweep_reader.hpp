#pragma once

#include <filesystem>
#include <string_view>

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
/// Names of files are relative to the file that names them. A later axis is set after an earlier
/// one; two axes cannot set the same key. No point is examined or simulated.
/// \throws ConfigError  with every problem, including unknown keys and values that cannot be read on
///     any axis.
Sweep load_sweep(std::filesystem::path const& path);

/// The same of a text in memory. `origin` names it in messages; files that it names are looked for
/// in the folder of `origin`.
Sweep parse_sweep(std::string_view text, std::filesystem::path const& origin);

}  // namespace stagecraft
