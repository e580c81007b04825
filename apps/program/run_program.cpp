#include "apps/program/run_program.hpp"

#include <malloc.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <iostream>
#include <limits>
#include <streambuf>
#include <string>
#include <string_view>
#include <system_error>

#include "apps/program/command_line.hpp"
#include "apps/program/completion.hpp"
#include "apps/program/program.hpp"
#include "libsim/config/did_you_mean.hpp"
#include "libsim/config/problem.hpp"
#include "libsim/hdf5/column_file.hpp"
#include "libsim/host/file_error.hpp"
#include "libsim/host/program_version.hpp"
#include "libsim/schedule/orders/schedule_error.hpp"

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

/// The command `manual`: prints the program's manual page, in the format of man(7), from what its
/// commands say of themselves. The program must outlive it.
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

// Exit codes, besides exit_does_not_fit.
constexpr int done = 0;
constexpr int failed = 1;
constexpr int bad_input = 2;

/// An execution allocates its tensors, and a search its block programs, thousands of times. If
/// memory were returned to the system in between, page faults would take a quarter of an iteration
/// with full recompute, and a third of a search.
void keep_freed_memory() {
#ifdef M_TRIM_THRESHOLD
  constexpr int most_from_heap = 32 << 20;  // glibc accepts no more
  mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
  mallopt(M_MMAP_THRESHOLD, most_from_heap);
#endif
}

/// Writes for std::cout as long as it lives, and records why the first write failed: std::ostream
/// does not keep the reason, and later calls change errno.
class StandardOutput : public std::streambuf {
 public:
  StandardOutput() : usual_{std::cout.rdbuf(this)} {}
  ~StandardOutput() override { std::cout.rdbuf(usual_); }
  StandardOutput(StandardOutput const&) = delete;
  StandardOutput(StandardOutput&&) = delete;
  StandardOutput& operator=(StandardOutput const&) = delete;
  StandardOutput& operator=(StandardOutput&&) = delete;

  /// The system's text; empty if nothing failed.
  std::string problem() const {
    return error_ == 0 ? std::string{} : std::system_category().message(error_);
  }

 protected:
  std::streamsize xsputn(char const* text, std::streamsize count) override {
    errno = 0;
    std::size_t const written = std::fwrite(text, 1, static_cast<std::size_t>(count), stdout);
    return note(static_cast<std::streamsize>(written), count);
  }
  int_type overflow(int_type character) override {
    if (traits_type::eq_int_type(character, traits_type::eof()))
      return traits_type::not_eof(character);
    char const one = traits_type::to_char_type(character);
    return xsputn(&one, 1) == 1 ? character : traits_type::eof();
  }
  int sync() override {
    errno = 0;
    return note(std::fflush(stdout), 0) == 0 ? 0 : -1;
  }

 private:
  template <typename Result>
  Result note(Result result, Result success) {
    if (result != success && error_ == 0) error_ = errno;
    return result;
  }

  std::streambuf* usual_;
  int error_ = 0;
};

std::string usage_text(Program const& program) {
  std::string text =
      "usage: " + program.name + " COMMAND [options]\n\n" + program.purpose + "\n\ncommands:\n";
  for (Command const& command : program.commands) {
    std::string name = command.name;
    name.resize(12, ' ');
    text += "  " + name + command.summary + "\n";
  }
  return text + "\n" + program.name + " COMMAND --help says more about one.\n\nexamples:\n" +
         program.examples;
}

int dispatch(Program const& program, std::vector<std::string> const& words) {
  if (words.empty()) {
    std::cerr << usage_text(program);
    return bad_input;
  }
  if (words[0] == "--help" || words[0] == "-h") {
    std::cout << usage_text(program);
    return done;
  }
  if (words[0] == "--version") {
    std::cout << program.name << ' ' << program_version() << "\nbuilt with " << program.features()
              << '\n';
    return done;
  }
  std::vector<std::string> names;
  for (Command const& command : program.commands) {
    if (command.name == words[0]) return run_words(command, {words.begin() + 1, words.end()});
    names.push_back(command.name);
  }
  throw unknown_word("command", words[0], names);
}

/// The program and the command that the words begin with, `import huggingface` if it is one of
/// several of a kind.
std::string who_runs(Program const& program, std::vector<std::string> const& words) {
  std::string who = program.name;
  std::vector<Command> const* commands = &program.commands;
  for (std::string const& word : words) {
    auto const command = std::find_if(commands->begin(), commands->end(),
                                      [&](Command const& one) { return one.name == word; });
    if (command == commands->end()) break;
    who += " " + word;
    commands = &command->subcommands;
  }
  return who;
}

}  // namespace

std::string program_features() { return build_features() + ", " + hdf5_version(); }

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

Complaint complaint_about(std::exception_ptr const& error, std::string const& who) {
  try {
    std::rethrow_exception(error);
  } catch (CommandLineError const& problem) {
    return {bad_input, who + ": " + problem.what() + "\n(see " + who + " --help)\n"};
  } catch (ConfigError const& problem) {
    return {bad_input, std::string{problem.what()} + '\n'};
  } catch (InputError const& problem) {
    return {bad_input, who + ": " + problem.what() + '\n'};
  } catch (ScheduleError const& problem) {
    return {bad_input, who + ": " + problem.what() + '\n'};
  } catch (std::exception const& problem) {
    return {failed, who + ": " + problem.what() + '\n'};
  }
}

// The only place that catches, except for ranks that are processes, which end all processes.
int run_program(Program program, std::vector<std::string> const& words) {
  // A write beyond the file size limit then fails with an error instead of a signal.
  std::signal(SIGXFSZ, SIG_IGN);
  keep_freed_memory();
  program.commands.push_back(completion_command(program));
  program.commands.push_back(manual_command(program));
  StandardOutput const output;
  try {
    int const code = dispatch(program, words);
    if (std::cout.flush()) return code;
    std::cerr << who_runs(program, words)
              << ": could not write to standard output: " << output.problem() << '\n';
    return failed;
  } catch (...) {
    Complaint const complaint = complaint_about(std::current_exception(), who_runs(program, words));
    std::cerr << complaint.text;
    return complaint.exit_code;
  }
}

}  // namespace stagecraft
