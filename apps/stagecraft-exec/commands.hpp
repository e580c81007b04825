#pragma once

#include "apps/program/command.hpp"

namespace stagecraft {

// The commands of `stagecraft-exec`. What they throw is turned into exit codes by run_program().

/// Measures this machine and writes a system file.
Command calibrate_command();
/// What can run here, and why not.
Command devices_command();
/// Measures a layer on the device at hand.
Command measure_command();
/// Executes a plan. Exit code 3 if it does not fit into the memory of this machine.
Command run_command();

}  // namespace stagecraft
