#include "apps/program/run_words.hpp"

#include <iostream>

#include "apps/program/command_line.hpp"
#include "libsim/config/did_you_mean.hpp"

namespace stagecraft {
namespace {

bool asks_for_help(std::vector<std::string> const& words) {
  return !words.empty() && (words.front() == "--help" || words.front() == "-h");
}

int run_subcommand(Command const& command, std::vector<std::string> const& words) {
  std::vector<std::string> names;
  for (Command const& below : command.subcommands) {
    if (!words.empty() && below.name == words.front()) {
      return run_words(below, {words.begin() + 1, words.end()});
    }
    names.push_back(below.name);
  }
  if (words.empty()) throw CommandLineError{command.subcommand_is, "", joined(names)};
  throw unknown_word(command.subcommand_is, words.front(), names);
}

}  // namespace

std::string help_text(Command const& command) {
  if (command.introduction.empty()) return help_text(command.subcommands.front());
  return command.introduction +
         (command.subcommands.empty() ? "\n" + options_text(command) : std::string{}) +
         "\nexamples:\n" + help_examples(command);
}

int read_and_run(Command const& command, std::vector<std::string> const& words) {
  CommandLine const line{command, words};
  if (!line.has("help")) return command.run(line);
  std::cout << help_text(command);
  return 0;
}

int run_words(Command const& command, std::vector<std::string> const& words) {
  if (command.subcommands.empty()) {
    return command.start ? command.start(command, words) : read_and_run(command, words);
  }
  if (!asks_for_help(words)) return run_subcommand(command, words);
  std::cout << help_text(command);
  return 0;
}

}  // namespace stagecraft
