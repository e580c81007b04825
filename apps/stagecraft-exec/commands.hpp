#pragma once

#include "apps/program/command.hpp"

namespace stagecraft {

// The commands of `stagecraft-exec`. What they throw is turned into exit codes by run_program().

/// Measures this machine and writes a system file.
Command calibrate_command();
/// Lists what can run on this machine, and why the rest cannot.
Command devices_command();
/// Measures a layer on the device at hand.
Command measure_command();
/// Executes a plan. Exit code 3 if it does not fit into the memory of this machine.
Command run_command();

}  // namespace stagecraft
