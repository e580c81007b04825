#pragma once

#include <stdexcept>

namespace stagecraft {

/// Training data or a checkpoint cannot be read. The message says which file and what is wrong.
class DataError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace stagecraft
