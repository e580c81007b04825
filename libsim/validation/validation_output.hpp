#pragma once

#include <cstddef>
#include <iosfwd>
#include <string>

#include "libsim/validation/validation.hpp"

namespace stagecraft {

/// Writes the document of `validate --json`, schema stagecraft.validation/1, one row per line. It is
/// not built in memory first: a file may have a million rows.
void write_json(Validation const& validation, std::ostream& out);

/// The result of a validation as a person reads it: a table of errors, with one line per regime,
/// how well plans were ranked, verdicts of fit, the worst rows, and the problems.
std::string validation_text(Validation const& validation);

/// The problems of rows, alike ones in one line with their number and the place of the first; the
/// commonest first, at most `most` lines. Empty if there are none.
std::string problems_text(Validation const& validation, std::size_t most);

}  // namespace stagecraft
