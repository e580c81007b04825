#pragma once

#include "apps/program/program.hpp"

namespace stagecraft {

/// The command `manual`: prints the program's manual page, in the format of man(7), from what its
/// commands say of themselves. The program must outlive it.
Command manual_command(Program const& program);

}  // namespace stagecraft
