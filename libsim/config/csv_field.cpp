#include "libsim/config/csv_field.hpp"

namespace stagecraft {

std::string csv_field(std::string const& text) {
  if (text.find_first_of("\",\r\n") == std::string::npos) return text;
  std::string field = "\"";
  for (char const letter : text) {
    if (letter == '"') field += '"';
    field += letter;
  }
  return field + '"';
}

}  // namespace stagecraft
