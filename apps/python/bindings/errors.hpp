#pragma once

#include <stdexcept>

namespace stagecraft::python {

/// A plan does not fit in memory, or no plan of a search does. what() is the command's message.
class DoesNotFit : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Makes the library's exceptions those of stagecraft/_errors.py: ConfigError for a configuration
/// or an argument, DoesNotFit, and Error for everything else.
void register_errors();

}  // namespace stagecraft::python
