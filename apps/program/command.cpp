#include "apps/program/command.hpp"

#include <filesystem>
#include <utility>

namespace stagecraft {

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

Value Value::offering(std::string of, std::vector<std::string> (*words)()) const {
  Value value = *this;
  value.list = std::move(of);
  value.listed = words;
  return value;
}

Value Value::with_commas() const {
  Value value = *this;
  value.has_commas = true;
  return value;
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

}  // namespace stagecraft
