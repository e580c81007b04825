#pragma once

#include <span>

#include "libsim/config/key_lister.hpp"

namespace stagecraft {

/// Every key of a system file, in the order in which it is printed.
std::span<KeyText const> system_keys();

/// Every key of a software file, likewise.
std::span<KeyText const> software_keys();

}  // namespace stagecraft
