#include "apps/program/completion.hpp"

#include <functional>
#include <iostream>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "apps/program/command_line.hpp"
#include "completion_scripts.hpp"

namespace stagecraft {
namespace {

std::string separated(std::vector<std::string> const& words, char const* separator) {
  std::string text;
  for (std::string const& word : words) text += (text.empty() ? "" : separator) + word;
  return text;
}

/// The script with each `@name@` replaced by the text given for the name.
std::string filled(std::string_view script,
                   std::vector<std::pair<std::string, std::string>> const& parts) {
  std::string text{script};
  for (auto const& [name, part] : parts) {
    std::string const mark = "@" + name + "@";
    for (std::size_t at = text.find(mark); at != std::string::npos;
         at = text.find(mark, at + part.size())) {
      text.replace(at, mark.size(), part);
    }
  }
  return text;
}

/// The parts that `part` makes for the commands and their subcommands. `path`: that of their parent
/// command, followed by a space.
std::string parts_of(
    std::vector<Command> const& commands,
    std::function<std::string(Command const&, std::string const& path)> const& part,
    std::string const& path = {}) {
  std::string text;
  for (Command const& command : commands) {
    text += part(command, path + command.name);
    text += parts_of(command.subcommands, part, path + command.name + " ");
  }
  return text;
}

std::vector<std::string> names_of(std::vector<Command> const& commands) {
  std::vector<std::string> names;
  names.reserve(commands.size());
  for (Command const& command : commands) names.push_back(command.name);
  return names;
}

/// A pattern of the commands whose second word belongs to the command, `import`. Matches nothing if
/// there is none.
std::string with_subcommands(std::vector<Command> const& commands) {
  std::vector<std::string> names;
  names.reserve(commands.size());
  for (Command const& command : commands) {
    if (!command.subcommands.empty()) names.push_back(command.name);
  }
  return names.empty() ? "''" : separated(names, "|");
}

std::vector<std::string> spellings_of(Option const& option) {
  std::vector<std::string> spellings{"--" + option.name};
  if (option.letter != '\0') spellings.push_back(std::string{"-"} + option.letter);
  return spellings;
}

/// Assignments of a bash function that describe a value.
std::string bash_value(Value const& value) {
  bool const has_words = value.kind == Value::Kind::word;
  bool const is_any_file = value.kind == Value::Kind::file && value.accepted.empty();
  std::string const accepted = separated(value.accepted, " ");
  return "words='" + (has_words ? accepted : "") + "' extensions='" + (has_words ? "" : accepted) +
         "' kind=" +
         (is_any_file                         ? "file"
          : value.kind == Value::Kind::folder ? "folder"
                                              : "none") +
         " list=" + value.list + " commas=" + (value.has_commas ? "yes" : "");
}

std::string bash_case(Command const& command, std::string const& path) {
  std::vector<std::string> all;
  std::string values;
  for (Option const& option : all_options(command)) {
    std::vector<std::string> const spellings = spellings_of(option);
    all.insert(all.end(), spellings.begin(), spellings.end());
    if (option.value.kind == Value::Kind::none) continue;
    values += "        " + separated(spellings, "|") + ") is_value=yes " +
              bash_value(option.value) + " ;;\n";
  }
  std::string text = "    '" + path + "')\n      options='" + separated(all, " ") + "'\n      " +
                     bash_value(command.argument) + "\n";
  if (!command.subcommands.empty()) {
    text += "      words='" + separated(names_of(command.subcommands), " ") + "'\n";
  }
  if (!values.empty()) text += "      case \"$previous\" in\n" + values + "      esac\n";
  return text + "      ;;\n";
}

/// The lists of all values, by name.
std::map<std::string, std::vector<std::string>> lists_of(std::vector<Command> const& commands) {
  std::map<std::string, std::vector<std::string>> lists;
  auto const add = [&](Value const& value) {
    if (!value.list.empty()) lists.try_emplace(value.list, value.listed());
  };
  for (Command const& command : commands) {
    add(command.argument);
    for (Option const& option : command.options) add(option.value);
    lists.merge(lists_of(command.subcommands));
  }
  return lists;
}

/// The file names of a value in the syntax of zsh: `-g "*.yaml"`.
std::string zsh_pattern(Value const& value) {
  if (value.accepted.empty()) return {};
  // A word alone in parentheses would be a qualifier of the pattern, not a part of it.
  std::string const extension = value.accepted.size() == 1
                                    ? value.accepted.front()
                                    : "(" + separated(value.accepted, "|") + ")";
  return " -g \"*." + extension + "\"";
}

std::string zsh_message(Value const& value) {
  std::string message = value.name;
  for (char& c : message) c = c == ':' || c == '\'' || c == '|' ? ' ' : c;
  return ":" + message + ":";
}

std::string zsh_value_with_list(Value const& value) {
  bool const is_file = value.kind == Value::Kind::file;
  // A command after a space is called by _arguments without options of its own.
  return zsh_message(value) + (value.has_commas ? " _stagecraft_items " : " _stagecraft_list ") +
         value.list + (is_file ? " _files" + zsh_pattern(value) : "");
}

/// A value in the syntax of zsh's _arguments: `:message:action`.
std::string zsh_value(Value const& value) {
  if (!value.list.empty()) return zsh_value_with_list(value);
  std::string text = zsh_message(value);
  switch (value.kind) {
    case Value::Kind::none:
    case Value::Kind::text:
      return text;
    case Value::Kind::word:
      return text + "(" + separated(value.accepted, " ") + ")";
    case Value::Kind::folder:
      return text + "_files -/";
    case Value::Kind::file:
      break;
  }
  return text + "_files" + zsh_pattern(value);
}

/// A text inside brackets and single quotes.
std::string zsh_text(std::string const& text) {
  std::string escaped;
  for (char const c : text) {
    if (c == '[' || c == ']' || c == ':' || c == '\\') escaped += '\\';
    escaped += c == '\'' ? std::string{"'\\''"} : std::string{c};
  }
  return escaped;
}

std::string zsh_case(Command const& command, std::string const& path) {
  std::string text = "    '" + path + "')\n      specs=(\n";
  for (Option const& option : all_options(command)) {
    bool const has_value = option.value.kind != Value::Kind::none;
    for (std::string const& spelling : spellings_of(option)) {
      bool const is_long = spelling.starts_with("--");
      text += "        '*" + spelling + (has_value ? (is_long ? "=" : "+") : "") + "[" +
              zsh_text(option.description) + "]" + (has_value ? zsh_value(option.value) : "") +
              "'\n";
    }
  }
  if (!command.subcommands.empty()) {
    text += "        '1:" + command.subcommand_is + ":(" +
            separated(names_of(command.subcommands), " ") + ")'\n";
  } else if (command.argument.kind != Value::Kind::none) {
    text += "        '*" + zsh_value(command.argument) + "'\n";
  }
  return text + "      )\n      ;;\n";
}

/// `_stagecraft_exec` of stagecraft-exec.
std::string function_of(std::string const& program) {
  std::string name = "_" + program;
  for (char& c : name) c = c == '-' ? '_' : c;
  return name;
}

/// For bash: to be sourced, or put into bash-completion/completions under the program's name.
std::string bash_completion(std::string const& program, std::vector<Command> const& commands) {
  std::string lists;
  for (auto const& [name, words] : lists_of(commands)) {
    lists += "  local " + name + "='" + separated(words, " ") + "'\n";
  }
  return filled(completion_bash, {{"program", program},
                                  {"function", function_of(program)},
                                  {"lists", lists},
                                  {"commands", separated(names_of(commands), " ")},
                                  {"with_subcommands", with_subcommands(commands)},
                                  {"cases", parts_of(commands, bash_case)}});
}

/// For zsh: to be put into a folder of its fpath under the program's name with _ before it.
std::string zsh_completion(std::string const& program, std::vector<Command> const& commands) {
  std::string lines;
  for (Command const& command : commands) {
    lines += "    '" + command.name + ":" + zsh_text(command.summary) + "'\n";
  }
  std::string lists;
  for (auto const& [name, words] : lists_of(commands)) {
    lists += "  local -a " + name + "=(" + separated(words, " ") + ")\n";
  }
  return filled(completion_zsh, {{"program", program},
                                 {"lists", lists},
                                 {"commands", lines},
                                 {"with_subcommands", with_subcommands(commands)},
                                 {"cases", parts_of(commands, zsh_case)}});
}

int print_completion(CommandLine const& line,
                     std::string const& program,
                     std::vector<Command> const& commands) {
  std::vector<std::string> const& shells = line.arguments();
  std::string const shell = shells.size() == 1 ? shells.front() : std::string{};
  if (shell != "bash" && shell != "zsh") {
    throw CommandLineError{"shell", "'" + separated(shells, " ") + "'", "bash, zsh"};
  }
  std::cout << (shell == "bash" ? bash_completion(program, commands)
                                : zsh_completion(program, commands));
  return 0;
}

}  // namespace

Command completion_command(Program const& program) {
  std::string const& name = program.name;
  return {.name = "completion",
          .summary = "a script that completes command lines in bash or zsh",
          .introduction = "usage: " + name + " completion bash|zsh\n\n" +
                          "Prints a script that completes command lines. `cmake --install` puts it "
                          "where bash\nand zsh look for it; without an installation:\n\n"
                          "  bash: source <(" +
                          name + " completion bash)\n  zsh:  " + name +
                          " completion zsh > ~/.zfunc/_" + name + "   (a folder of your fpath)\n",
          .examples = "  " + name + " completion bash\n",
          .argument = Value::word({"bash", "zsh"}),
          .run = [&program](CommandLine const& line) {
            return print_completion(line, program.name, program.commands);
          }};
}

}  // namespace stagecraft
