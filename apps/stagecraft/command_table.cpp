#include "apps/stagecraft/command_table.hpp"

#include <algorithm>
#include <cctype>
#include <sstream>
#include <stdexcept>

#include "apps/stagecraft/command_line.hpp"
#include "apps/stagecraft/completion.hpp"

namespace stagecraft {

namespace po = boost::program_options;

namespace {

std::vector<std::string> split(std::string const& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream{text};
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
  return parts;
}

CommandOption option_of(po::option_description const& option) {
  CommandOption result;
  result.spellings.push_back("--" + option.long_name());
  std::string const shortest =
      option.canonical_display_name(po::command_line_style::allow_dash_for_short);
  if (shortest != result.spellings.front() && shortest.starts_with('-') && shortest.size() == 2) {
    result.spellings.push_back(shortest);
  }
  result.description = option.description();
  result.takes_value = option.semantic()->max_tokens() > 0;
  if (result.takes_value) {
    std::string const name = option.semantic()->name();
    result.value_name = name.substr(0, name.find(" (="));  // the default follows
  }
  return result;
}

template <typename Run>
OptionTable answer_of(Run const& run, std::vector<std::string> const& path) {
  std::vector<std::string> words{path.begin() + 1, path.end()};
  words.emplace_back(option_table_request);
  try {
    run(words);
  } catch (OptionTable const& table) {
    return table;
  }
  throw std::logic_error{path.front() + ": the command does not say what options it has"};
}

/// Asks a command, whose words so far are `path`, and those below it.
template <typename Run>
void ask(Run const& run,
         std::vector<std::string> const& path,
         std::string const& summary,
         std::vector<CommandTable>& tables) {
  OptionTable const answer = answer_of(run, path);
  CommandTable table{path, summary, {}, answer.argument, answer.subcommands};
  if (answer.options) {
    for (auto const& option : answer.options->options())
      table.options.push_back(option_of(*option));
  }
  tables.push_back(std::move(table));
  for (std::string const& word : answer.subcommands) {
    std::vector<std::string> below = path;
    below.push_back(word);
    ask(run, below, summary, tables);
  }
}

}  // namespace

ExpectedValue expected_value(std::string const& name) {
  ExpectedValue value;
  for (std::string const& part : split(name, ' ')) {
    std::size_t const dot = part.rfind('.');
    bool const has_extension =
        dot != std::string::npos && dot > 0 && dot + 1 < part.size() &&
        std::all_of(part.begin() + static_cast<std::ptrdiff_t>(dot) + 1, part.end(),
                    [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; });
    if (part.find('|') != std::string::npos) {
      for (std::string const& word : split(part, '|')) value.words.push_back(word);
    } else if (part == "FILE") {
      value.is_any_file = true;
    } else if (part == "DIR") {
      value.is_folder = true;
    } else if (has_extension) {
      value.extensions.push_back(part.substr(dot + 1));
    }
  }
  return value;
}

std::vector<CommandTable> command_tables(Program const& program) {
  std::vector<CommandTable> tables;
  for (Command const& command : program.commands) {
    ask(command.run, {std::string{command.name}}, std::string{command.summary}, tables);
  }
  ask([&](std::vector<std::string> const& words) { return completion_command(program, words); },
      {std::string{completion_name}}, std::string{completion_summary}, tables);
  return tables;
}

}  // namespace stagecraft
