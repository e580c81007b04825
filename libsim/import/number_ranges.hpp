#pragma once

#include "libsim/config/config_node.hpp"

/// Accepted ranges of parallel degrees and of a model's widths: far above any real run.
namespace stagecraft {

inline constexpr IntegerRange degrees{1, 1'000'000};
inline constexpr IntegerRange widths{1, 1 << 24};

}  // namespace stagecraft
