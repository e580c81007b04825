#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "libsim/hdf5/column_file.hpp"
#include "libsim/report/operation.hpp"

namespace stagecraft {

/// Adds the columns of money, energy and interruptions that `rates_of` a point ask for to the
/// results of a sweep, and GPU hours, before the last column; columns of the same names are
/// replaced. A row that could not be simulated has none of them: not a number. All rates have one
/// currency.
/// Pre: `table` has the columns of table_of.
void add_operating_columns(ColumnFile& table,
                           std::function<OperatingRates(std::int64_t point)> const& rates_of,
                           std::string const& currency);

}  // namespace stagecraft
