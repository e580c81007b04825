#include "apps/program/command.hpp"

#include <filesystem>
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

Value Value::word(std::vector<std::string> words) {
  std::string name;
  for (std::string const& word : words) name += (name.empty() ? "" : "|") + word;
  return {Kind::word, std::move(name), std::move(words)};
}

Value Value::file(std::string name) {
  std::string const extension = std::filesystem::path{name}.extension().string();
  if (extension.empty()) return file(std::move(name), {});
  return file(std::move(name), {extension.substr(1)});
}

std::string Option::shown() const {
  return "--" + name + (letter == '\0' ? "" : std::string{" (-"} + letter + ")");
}

std::vector<Option> joined_options(std::initializer_list<std::vector<Option>> lists) {
  std::vector<Option> all;
  for (std::vector<Option> const& list : lists) all.insert(all.end(), list.begin(), list.end());
  return all;
}

std::vector<Option> all_options(Command const& command) {
  if (!command.subcommands.empty()) return {};
  return joined_options(
      {command.options, {{.name = "help", .letter = 'h', .description = "print this"}}});
}

std::string const& help_introduction(Command const& command) {
  return command.introduction.empty() ? help_introduction(command.subcommands.front())
                                      : command.introduction;
}

std::string help_examples(Command const& command) {
  std::string examples = command.examples;
  for (Command const& below : command.subcommands) examples += below.examples;
  return examples;
}

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
