#pragma once

#include <cstdint>
#include <vector>

#include "libsim/hdf5/column_file.hpp"
#include "libsim/sweep/sweep.hpp"

namespace stagecraft {

/// The columns that identify each of the `points`: for each group its case, for each key its value
/// as the sweep file writes it. A column has whole numbers if all values of the key are whole (1
/// and 0 for true and false), real numbers if all are numbers, else texts. A key that only some
/// cases of a group set has the base's value in the others; if the base has none, a text is empty
/// and a number is not a number.
std::vector<NamedColumn> key_columns(Sweep const& sweep, std::vector<std::int64_t> const& points);

}  // namespace stagecraft
