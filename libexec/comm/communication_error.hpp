#pragma once

#include <stdexcept>

namespace stagecraft {

/// The library that carries messages has failed, or is not there. The message has its own words.
class CommunicationError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace stagecraft
