#pragma once

#include "libsim/hdf5/column_file.hpp"
#include "libsim/report/operation.hpp"

namespace stagecraft {

/// Adds the columns of money, energy and interruptions that `rates` asks for to the results of a
/// sweep, before the last column; columns of the same names are replaced. A row that could not be
/// simulated has none of them: not a number.
/// Pre: `table` has the columns of table_of.
void add_operating_columns(ColumnFile& table, OperatingRates const& rates);

}  // namespace stagecraft
