#pragma once

#include <string>
#include <vector>

#include "apps/stagecraft/program.hpp"

namespace stagecraft {

/// What may stand at a place of a command line, as names of values say it in option tables:
/// `chunk|op` is one of two words, `F.h5` a file with this extension, `FILE` any, `DIR` a folder;
/// several with spaces between them are alternatives. Anything else is free text.
struct ExpectedValue {
  std::vector<std::string> words;
  std::vector<std::string> extensions;  ///< without the dot
  bool is_any_file = false;
  bool is_folder = false;
};
ExpectedValue expected_value(std::string const& name);

/// An option of a command.
struct CommandOption {
  std::vector<std::string> spellings;  ///< --output, -o
  std::string description;
  bool takes_value = false;
  std::string value_name;
};

/// A command, or a source of one (`import megatron`).
struct CommandTable {
  std::vector<std::string> path;  ///< its words
  std::string summary;
  std::vector<CommandOption> options;
  std::string argument;                  ///< what its words that are no options are
  std::vector<std::string> subcommands;  ///< words that must come next
};

/// All commands of a program and what each takes, from their option tables.
std::vector<CommandTable> command_tables(Program const& program);

}  // namespace stagecraft
