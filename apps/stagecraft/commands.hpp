#pragma once

#include <string_view>

#include "apps/program/command.hpp"
#include "apps/program/program.hpp"

namespace stagecraft {

// The commands of `stagecraft`. What they throw is turned into exit codes by run_program().

/// Memory of each stage and time of an iteration. Exit code 3 with --require-fit if a stage does
/// not fit.
Command simulate_command();
/// What fills the fullest stage, how time is spent, and what would help.
Command explain_command();
/// The layouts, schedules and recompute policies that fit, ranked. Exit code 3 if nothing fits.
Command plan_command();
/// The cross product of lists of values.
Command sweep_command();
/// Measured runs beside their predictions. Exit code 1 if no row can be predicted.
Command validate_command();
/// Constants from measured runs. Exit code 1 if no row can be used.
Command fit_command();
/// Tables and figures of the paper, predicted beside published.
Command reproduce_command();
/// One layer, op by op.
Command layer_command();
/// A pipeline schedule alone.
Command schedule_command();
/// Two traces of one plan.
Command compare_command();
/// One self-contained HTML page about one or several traces.
Command report_command();
/// A trace in a format that other programs read.
Command export_command();
/// A model file of a config.json, or a run file of Megatron-LM's flags.
Command import_command();
/// Its source `nccl-tests`: a system file of measured collectives.
Command nccl_tests_import();

/// `import NAME` of a framework: deepspeed, accelerate, torchtitan.
Command framework_import(std::string_view name);
/// A recorded sequence of allocations, replayed. Exit code 3 if it runs out of memory.
Command allocator_command();
/// Every constant of a system with value, unit and source.
Command system_command();
/// Every constant of a software stack with value, unit and source.
Command software_command();

/// `stagecraft`: all of them.
Program planning_program();

}  // namespace stagecraft
