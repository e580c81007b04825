#pragma once

#include "libsim/host/file_error.hpp"

namespace stagecraft {

/// Training data or a checkpoint cannot be read. The message says which file and what is wrong.
class DataError : public InputError {
 public:
  using InputError::InputError;
};

}  // namespace stagecraft
