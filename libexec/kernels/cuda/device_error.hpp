#pragma once

#include <stdexcept>

namespace stagecraft {

/// A device, or a library that works on it, refused a call. The message names call and reason.
class DeviceError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace stagecraft
