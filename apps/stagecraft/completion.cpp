#include "apps/stagecraft/completion.hpp"

#include <iostream>

#include "apps/stagecraft/command_line.hpp"
#include "apps/stagecraft/command_table.hpp"

namespace stagecraft {

namespace po = boost::program_options;

namespace {

std::string joined(std::vector<std::string> const& words, char const* separator) {
  std::string text;
  for (std::string const& word : words) text += (text.empty() ? "" : separator) + word;
  return text;
}

/// `_stagecraft_exec` of stagecraft-exec.
std::string function_of(Program const& program) {
  std::string name = "_" + std::string{program.name};
  for (char& c : name) c = c == '-' ? '_' : c;
  return name;
}

std::vector<std::string> first_words(std::vector<CommandTable> const& tables) {
  std::vector<std::string> words;
  for (CommandTable const& table : tables) {
    if (table.path.size() == 1) words.push_back(table.path.front());
  }
  return words;
}

/// Assignments of a bash function that say what may stand somewhere.
std::string bash_value(std::string const& name) {
  ExpectedValue const value = expected_value(name);
  std::string text = "words='" + joined(value.words, " ") + "'";
  text += " extensions='" + joined(value.extensions, " ") + "'";
  text += " kind=" + std::string{value.is_any_file ? "file" : value.is_folder ? "folder" : "none"};
  return text;
}

std::string bash_case(CommandTable const& table) {
  std::string text = "    '" + joined(table.path, " ") + "')\n";
  std::vector<std::string> spellings;
  std::string values;
  for (CommandOption const& option : table.options) {
    spellings.insert(spellings.end(), option.spellings.begin(), option.spellings.end());
    if (!option.takes_value) continue;
    values += "        " + joined(option.spellings, "|") + ") is_value=yes " +
              bash_value(option.value_name) + " ;;\n";
  }
  text += "      options='" + joined(spellings, " ") + "'\n";
  text += "      " + bash_value(table.argument) + "\n";
  if (!table.subcommands.empty()) {
    text += "      words='" + joined(table.subcommands, " ") + "'\n";
  }
  if (!values.empty()) text += "      case \"$previous\" in\n" + values + "      esac\n";
  return text + "      ;;\n";
}

/// What zsh's _arguments takes for a value: `:message:action`.
std::string zsh_value(std::string const& name) {
  ExpectedValue const value = expected_value(name);
  std::string message = name;
  for (char& c : message) c = c == ':' || c == '\'' || c == '|' ? ' ' : c;
  std::string text = ":" + message + ":";
  if (!value.words.empty()) return text + "(" + joined(value.words, " ") + ")";
  if (value.is_folder) return text + "_files -/";
  if (value.is_any_file) return text + "_files";
  if (value.extensions.empty()) return text;
  // A word alone in parentheses would be a qualifier of the pattern, not a part of it.
  std::string const extension = value.extensions.size() == 1
                                    ? value.extensions.front()
                                    : "(" + joined(value.extensions, "|") + ")";
  return text + "_files -g \"*." + extension + "\"";
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

std::string zsh_case(CommandTable const& table) {
  std::string text = "    '" + joined(table.path, " ") + "')\n      specs=(\n";
  for (CommandOption const& option : table.options) {
    for (std::string const& spelling : option.spellings) {
      bool const is_long = spelling.starts_with("--");
      text += "        '*" + spelling + (option.takes_value ? (is_long ? "=" : "+") : "") + "[" +
              zsh_text(option.description) + "]" +
              (option.takes_value ? zsh_value(option.value_name) : "") + "'\n";
    }
  }
  if (!table.subcommands.empty()) {
    text += "        '1:source:(" + joined(table.subcommands, " ") + ")'\n";
  } else if (!table.argument.empty()) {
    text += "        '*" + zsh_value(table.argument) + "'\n";
  }
  return text + "      )\n      ;;\n";
}

/// A pattern of the commands whose second word belongs to the command, `import`; never matched
/// where there is none.
std::string with_subcommands(std::vector<CommandTable> const& tables) {
  std::vector<std::string> words;
  for (CommandTable const& table : tables) {
    if (!table.subcommands.empty()) words.push_back(table.path.front());
  }
  return words.empty() ? "''" : joined(words, "|");
}

}  // namespace

std::string bash_completion(Program const& program) {
  std::vector<CommandTable> const tables = command_tables(program);
  std::string const function = function_of(program);
  std::string text = "# Completion of " + std::string{program.name} + " in bash; made by `" +
                     std::string{program.name} + " completion bash`.\n\n" + function + "() {\n";
  text +=
      "  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]}\n"
      "  local command=${COMP_WORDS[1]} options= words= extensions= kind=none is_value= extension "
      "path\n"
      "  local -a found\n"
      "  COMPREPLY=()\n"
      "  # bash takes `=` for a word of its own.\n"
      "  [ \"$current\" = = ] && current=\n"
      "  [ \"$previous\" = = ] && previous=${COMP_WORDS[COMP_CWORD-2]}\n"
      "  if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
      "    mapfile -t COMPREPLY < <(compgen -W '" +
      joined(first_words(tables), " ") +
      " --help --version' -- \"$current\")\n"
      "    return\n"
      "  fi\n"
      "  case $command in\n"
      "    " +
      with_subcommands(tables) +
      ") [ \"$COMP_CWORD\" -gt 2 ] && command+=\" ${COMP_WORDS[2]}\" ;;\n"
      "  esac\n"
      "  case $command in\n";
  for (CommandTable const& table : tables) text += bash_case(table);
  text +=
      "  esac\n"
      "  if [ -z \"$is_value\" ] && [[ $current == -* ]]; then\n"
      "    mapfile -t COMPREPLY < <(compgen -W \"$options\" -- \"$current\")\n"
      "    return\n"
      "  fi\n"
      "  mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$current\")\n"
      "  if [ -n \"$extensions\" ]; then\n"
      "    for extension in $extensions; do\n"
      "      mapfile -t found < <(compgen -f -X \"!*.$extension\" -- \"$current\")\n"
      "      COMPREPLY+=(\"${found[@]}\")\n"
      "    done\n"
      "    kind=folder\n"
      "  fi\n"
      "  case $kind in\n"
      "    file) mapfile -t found < <(compgen -f -- \"$current\") ;;\n"
      "    folder) mapfile -t found < <(compgen -d -- \"$current\") ;;\n"
      "    none) return ;;\n"
      "  esac\n"
      "  COMPREPLY+=(\"${found[@]}\")\n"
      "  if [[ ${current##*/} != .* ]]; then  # what is hidden, only after a dot\n"
      "    found=(\"${COMPREPLY[@]}\")\n"
      "    COMPREPLY=()\n"
      "    for path in \"${found[@]}\"; do\n"
      "      [[ ${path##*/} == .* ]] || COMPREPLY+=(\"$path\")\n"
      "    done\n"
      "  fi\n"
      "  compopt -o filenames 2>/dev/null\n"
      "}\n\n"
      "complete -F " +
      function + " " + std::string{program.name} + "\n";
  return text;
}

std::string zsh_completion(Program const& program) {
  std::vector<CommandTable> const tables = command_tables(program);
  std::string const name{program.name};
  std::string text = "#compdef " + name + "\n# Completion of " + name + " in zsh; made by `" +
                     name +
                     " completion zsh`.\n\nlocal curcontext=$curcontext command=$words[2]\n"
                     "local -a words_of_program specs\n"
                     "if (( CURRENT == 2 )); then\n  words_of_program=(\n";
  for (CommandTable const& table : tables) {
    if (table.path.size() > 1) continue;
    text += "    '" + table.path.front() + ":" + zsh_text(table.summary) + "'\n";
  }
  text +=
      "    '--help:print the commands'\n    '--version:print the version'\n  )\n"
      "  _describe command words_of_program\n  return\nfi\n"
      "shift words\n(( CURRENT-- ))\n"
      "case $command in\n  " +
      with_subcommands(tables) +
      ")\n    if (( CURRENT > 2 )); then\n"
      "      command+=\" $words[2]\"\n      shift words\n      (( CURRENT-- ))\n    fi\n    ;;\n"
      "esac\ncase $command in\n";
  for (CommandTable const& table : tables) text += zsh_case(table);
  return text + "esac\n_arguments -s $specs\n";
}

int completion_command(Program const& program, std::vector<std::string> const& arguments) {
  po::options_description options{"options"};
  options.add_options()("help,h", "print this");
  std::vector<std::string> shells;
  po::variables_map const values = parse_options(arguments, options, shells, "bash|zsh");
  if (values.count("help") > 0) {
    std::string const name{program.name};
    std::cout
        << "usage: " << name << " completion bash|zsh\n\n"
        << "Prints a script that completes command lines. `cmake --install` puts it where bash\n"
        << "and zsh look for it; without an installation:\n\n"
        << "  bash: source <(" << name << " completion bash)\n"
        << "  zsh:  " << name << " completion zsh > ~/.zfunc/_" << name
        << "   (a folder of your fpath)\n\n"
        << options << "\nexamples:\n  " << name << " completion bash\n";
    return 0;
  }
  std::string const shell = shells.size() == 1 ? shells.front() : std::string{};
  if (shell != "bash" && shell != "zsh") {
    throw CommandLineError{"shell: found '" + joined(shells, " ") + "'; accepted: bash, zsh"};
  }
  std::cout << (shell == "bash" ? bash_completion(program) : zsh_completion(program));
  return 0;
}

}  // namespace stagecraft
