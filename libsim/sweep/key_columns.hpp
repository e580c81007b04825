#pragma once

#include <cstdint>
#include <vector>

#include "libsim/hdf5/column_file.hpp"
#include "libsim/sweep/sweep.hpp"

namespace stagecraft {

/// The columns that say what each point is: for each group its case, for each key its value as the
/// sweep file writes it. Whole numbers where all values of a key are, 1 and 0 for true and false,
/// real numbers where all are numbers, else texts. A key that only some cases of a group set has
/// the base's value in the others; where that has none, a text is empty and a number is not a
/// number. `points`: of the rows.
std::vector<NamedColumn> key_columns(Sweep const& sweep, std::vector<std::int64_t> const& points);

}  // namespace stagecraft
