#pragma once

#include <span>

#include "libsim/config/key_lister.hpp"

namespace stagecraft {

/// Every key of a run file but those below `system` and `software`, which have texts of their own,
/// in the order in which `--print-config` writes them.
std::span<KeyText const> run_keys();

}  // namespace stagecraft
