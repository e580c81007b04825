#include "apps/stagecraft/program.hpp"

#include <algorithm>
#include <exception>
#include <iostream>

#include "apps/stagecraft/command_line.hpp"
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

void print_usage(Program const& program, std::ostream& out) {
  out << "usage: " << program.name << " COMMAND [options]\n\n"
      << program.purpose << "\n\ncommands:\n";
  for (Command const& command : program.commands) {
    std::string name{command.name};
    name.resize(12, ' ');
    out << "  " << name << command.summary << '\n';
  }
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
    std::cout << program.name << ' ' << program_version() << "\nbuilt with " << program_features()
              << '\n';
    return done;
  }
  std::string names;
  for (Command const& command : program.commands) {
    if (command.name == words[0]) return command.run({words.begin() + 1, words.end()});
    names += (names.empty() ? "" : ", ") + std::string{command.name};
  }
  throw CommandLineError{"command: found '" + words[0] + "'; accepted: " + names};
}

bool is_command(Program const& program, std::string_view word) {
  return std::any_of(program.commands.begin(), program.commands.end(),
                     [word](Command const& command) { return command.name == word; });
}

}  // namespace

// The only place that catches.
int run_program(Program const& program, std::vector<std::string> const& words) {
  std::string const who = std::string{program.name} +
                          (!words.empty() && is_command(program, words[0]) ? " " + words[0] : "");
  try {
    int const code = dispatch(program, words);
    if (!std::cout.flush()) {
      std::cerr << who << ": could not write to standard output\n";
      return failed;
    }
    return code;
  } catch (CommandLineError const& error) {
    std::cerr << who << ": " << error.what() << "\n(see " << who << " --help)\n";
    return bad_input;
  } catch (ConfigError const& error) {
    std::cerr << error.what() << '\n';
    return bad_input;
  } catch (InputError const& error) {
    std::cerr << who << ": " << error.what() << '\n';
    return bad_input;
  } catch (ScheduleError const& error) {
    std::cerr << who << ": " << error.what() << '\n';
    return bad_input;
  } catch (std::exception const& error) {
    std::cerr << who << ": " << error.what() << '\n';
    return failed;
  }
}

}  // namespace stagecraft
