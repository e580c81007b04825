#pragma once

#include <string>
#include <string_view>

namespace stagecraft {

/// Escapes text for an element or for an attribute in double quotes: nothing in it is markup.
/// Bytes that are not UTF-8 are replaced.
std::string html_text(std::string_view text);

/// Escapes JSON text for a script element: no sequence in it can end the element.
std::string script_json(std::string const& json);

}  // namespace stagecraft
