#pragma once

#include <stdexcept>

namespace stagecraft {

/// A call of a device's library failed. The message names the call and the reason.
class DeviceError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace stagecraft
