#pragma once

#include <string>

namespace stagecraft {

/// A text as a cell of a CSV file, in quotes if it needs them. Source: RFC 4180.
std::string csv_field(std::string const& text);

}  // namespace stagecraft
