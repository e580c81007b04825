#include "apps/stagecraft/program.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <exception>
#include <iostream>
#include <system_error>

#include "apps/stagecraft/command_line.hpp"
#include "apps/stagecraft/command_table.hpp"
#include "apps/stagecraft/completion.hpp"
#include "libsim/config/problem.hpp"
#include "libsim/plan/pipeline_schedule.hpp"
#include "libsim/trace/program_version.hpp"
#include "libsim/trace/trace_error.hpp"

namespace stagecraft {

namespace {

// Exit codes; 3 is "does not fit in memory" and comes from the commands that look at memory.
constexpr int done = 0;
constexpr int failed = 1;
constexpr int bad_input = 2;

void print_command(std::string_view name, std::string_view summary, std::ostream& out) {
  std::string padded{name};
  padded.resize(12, ' ');
  out << "  " << padded << summary << '\n';
}

void print_usage(Program const& program, std::ostream& out) {
  out << "usage: " << program.name << " COMMAND [options]\n\n"
      << program.purpose << "\n\ncommands:\n";
  for (Command const& command : program.commands) {
    print_command(command.name, command.summary, out);
  }
  print_command(completion_name, completion_summary, out);
  out << '\n'
      << program.name << " COMMAND --help says more about one.\n\nexamples:\n"
      << program.examples;
}

int dispatch(Program const& program, std::vector<std::string> const& words) {
  if (words.empty()) {
    print_usage(program, std::cerr);
    return bad_input;
  }
  if (words[0] == "--help" || words[0] == "-h") {
    print_usage(program, std::cout);
    return done;
  }
  if (words[0] == "--version") {
    std::cout << program.name << ' ' << program_version() << "\nbuilt with " << program.features()
              << '\n';
    return done;
  }
  std::vector<std::string> names;
  for (Command const& command : program.commands) {
    if (command.name == words[0]) return command.run({words.begin() + 1, words.end()});
    names.emplace_back(command.name);
  }
  if (words[0] == completion_name) {
    return completion_command(program, {words.begin() + 1, words.end()});
  }
  names.emplace_back(completion_name);
  throw CommandLineError{"command: found " + refused_word(words[0], names)};
}

/// The program and the command that the words begin with, `import huggingface` where there is more
/// than one of a kind.
std::string who_runs(Program const& program, std::vector<std::string> const& words) {
  std::string who{program.name};
  std::size_t longest = 0;
  for (CommandTable const& table : command_tables(program)) {
    bool const is_this = table.path.size() > longest && table.path.size() <= words.size() &&
                         std::equal(table.path.begin(), table.path.end(), words.begin());
    if (is_this) longest = table.path.size();
  }
  for (std::size_t i = 0; i < longest; ++i) who += " " + words[i];
  return who;
}

/// What keeps standard output from being written, as the system says it; empty where it does not.
std::string reason_of_full_output() {
  // Once more: what failed may have been followed by other calls.
  bool const is_full = ::write(STDOUT_FILENO, "\n", 1) < 0;
  return is_full ? ": " + std::system_category().message(errno) : "";
}

}  // namespace

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

// The only place that catches, but for ranks that are processes: they catch what ends all of them.
int run_program(Program const& program, std::vector<std::string> const& words) {
  // A file that may not grow is one that cannot be written, and is said to be.
  std::signal(SIGXFSZ, SIG_IGN);
  try {
    int const code = dispatch(program, words);
    if (!std::cout.flush()) {
      std::string const reason = reason_of_full_output();
      std::cerr << who_runs(program, words) << ": could not write to standard output" << reason
                << '\n';
      return failed;
    }
    return code;
  } catch (...) {
    Complaint const complaint = complaint_about(std::current_exception(), who_runs(program, words));
    std::cerr << complaint.text;
    return complaint.exit_code;
  }
}

}  // namespace stagecraft
