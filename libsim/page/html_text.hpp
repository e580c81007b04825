#pragma once

#include <string>
#include <string_view>

namespace stagecraft {

/// Text as content of an element or of an attribute in double quotes: nothing in it is markup.
/// Bytes that are no UTF-8 are replaced.
std::string html_text(std::string_view text);

/// JSON text fit for a script element: no sequence of it can end the element.
std::string script_json(std::string const& json);

}  // namespace stagecraft
