#pragma once

#include <string>
#include <vector>

#include "apps/program/command_line.hpp"
#include "apps/program/output_paths.hpp"
#include "apps/stagecraft/command_results.hpp"
#include "libsim/import/omissions.hpp"
#include "libsim/run/run_config.hpp"

namespace stagecraft {

/// The options that all imports have.
std::vector<Option> import_output_options();

/// The names of --ignore.
std::vector<std::string> ignored_names(CommandLine const& line);

/// What --strict says.
Strictness strictness_of(CommandLine const& line);

/// The system for a run file: a name of configs/systems, or a path that is valid from any folder.
/// `remark` becomes what a reader of the file must know of it.
std::string system_path(CommandLine const& line, std::string& remark);

/// Reads an imported run, which checks it.
/// \throws ConfigError  placed at `origin`, the file that was imported.
RunConfig parse_imported_run(std::string const& text, std::string const& origin);

/// Writes the file to the path of --output and prints the rest. Returns the exit code.
int write_import(CommandLine const& line, OutputKind kind, ImportedFile const& imported);

}  // namespace stagecraft
