#pragma once

#include <string>

namespace stagecraft {

/// A program's name for a phase, a tensor or an op, for reading: "weight gradient".
std::string spoken(std::string name);

}  // namespace stagecraft
