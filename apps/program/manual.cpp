#include "apps/program/manual.hpp"

#include <algorithm>
#include <cctype>
#include <iostream>
#include <string>
#include <string_view>

#include "apps/program/command_line.hpp"
#include "libsim/host/program_version.hpp"

namespace stagecraft {
namespace {

/// Text as roff prints it: hyphens as they are typed, nothing taken for a request.
std::string roff(std::string_view text) {
  std::string escaped;
  bool begins_line = true;
  for (char const c : text) {
    if (begins_line && (c == '.' || c == '\'')) escaped += "\\&";
    if (c == '\\') {
      escaped += "\\e";
    } else if (c == '-') {
      escaped += "\\-";
    } else {
      escaped += c;
    }
    begins_line = c == '\n';
  }
  return escaped;
}

/// Lines as they are.
std::string as_typed(std::string const& text) {
  return ".nf\n" + roff(text) + (text.ends_with('\n') ? "" : "\n") + ".fi\n";
}

std::string option_entry(Option const& option) {
  std::string head = "\\fB\\-\\-" + roff(option.name) + "\\fR";
  if (option.letter != '\0') head += ", \\fB\\-" + std::string{option.letter} + "\\fR";
  if (option.value.kind != Value::Kind::none) head += " \\fI" + roff(option.value.name) + "\\fR";
  std::string text = roff(option.description);
  if (!option.fallback.empty()) text += " (default: " + roff(option.fallback) + ")";
  return ".TP\n" + head + "\n" + text + "\n";
}

std::string command_section(std::string const& name, Command const& command) {
  std::string text = ".SS " + roff(name) + "\n" + as_typed(help_introduction(command));
  std::vector<Option> const options = all_options(command);
  for (Option const& option : options) text += option_entry(option);
  for (Command const& below : command.subcommands) {
    text += ".PP\n\\fB" + roff(name + " " + below.name) + "\\fR\n";
    for (Option const& option : all_options(below)) text += option_entry(option);
  }
  std::string const examples = help_examples(command);
  if (!examples.empty()) text += ".PP\nExamples:\n.PP\n" + as_typed(examples);
  return text;
}

std::string manual_page(Program const& program) {
  std::string title = program.name;
  std::ranges::transform(title, title.begin(),
                         [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  std::string text = ".TH " + roff(title) + " 1 \"\" \"" + roff(program_version()) + "\"\n" +
                     ".ad l\n.SH NAME\n" + roff(program.name) + " \\- " + roff(program.purpose) +
                     "\n" + ".SH SYNOPSIS\n\\fB" + roff(program.name) +
                     "\\fR \\fIcommand\\fR [\\fIarguments\\fR]\n.br\n\\fB" + roff(program.name) +
                     "\\fR \\-\\-help | \\-\\-version\n.SH COMMANDS\n";
  for (Command const& command : program.commands) text += command_section(command.name, command);
  return text + ".SH EXAMPLES\n" + as_typed(program.examples) +
         ".SH EXIT STATUS\n"
         ".TP\n0\nDone.\n"
         ".TP\n1\nFailed, such as a file that could not be written.\n"
         ".TP\n2\nThe command line, a configuration or an input is wrong; the message has the "
         "place, what was found and what is accepted.\n"
         ".TP\n3\nThe run, or every plan, does not fit in memory.\n";
}

}  // namespace

Command manual_command(Program const& program) {
  std::string const& name = program.name;
  return {.name = "manual",
          .summary = "the manual page of all commands, for man",
          .introduction = "usage: " + name + " manual\n\n" +
                          "Prints the manual page, which has what --help says of every command. "
                          "`cmake --install`\nputs it where `man " +
                          name + "` finds it; without an installation:\n\n  man <(" + name +
                          " manual)\n",
          .examples = "  " + name + " manual\n",
          .run = [&program](CommandLine const& /*line*/) {
            std::cout << manual_page(program);
            return 0;
          }};
}

}  // namespace stagecraft
