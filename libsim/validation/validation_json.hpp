#pragma once

#include <iosfwd>

#include "libsim/validation/validation.hpp"

namespace stagecraft {

/// Writes the document of `validate --json`, schema stagecraft.validation/1, one row per line. It is
/// not built in memory first: a file may have a million rows.
void write_json(Validation const& validation, std::ostream& out);

}  // namespace stagecraft
