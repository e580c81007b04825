#pragma once

#include "libsim/config/config_node.hpp"

/// Of parallel degrees, and of a model's widths and sequences: far above what there is.
namespace stagecraft {

inline constexpr IntegerRange degrees{1, 1'000'000};
inline constexpr IntegerRange widths{1, 1 << 24};

}  // namespace stagecraft
