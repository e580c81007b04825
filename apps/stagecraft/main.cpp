#include <algorithm>
#include <array>
#include <exception>
#include <iostream>
#include <string>
#include <string_view>
#include <vector>

#include "apps/stagecraft/command_line.hpp"
#include "apps/stagecraft/compare_command.hpp"
#include "apps/stagecraft/export_command.hpp"
#include "apps/stagecraft/layer_command.hpp"
#include "apps/stagecraft/report_command.hpp"
#include "apps/stagecraft/reproduce_command.hpp"
#include "apps/stagecraft/schedule_command.hpp"
#include "apps/stagecraft/simulate_command.hpp"
#include "apps/stagecraft/system_command.hpp"
#include "libsim/config/problem.hpp"
#include "libsim/plan/pipeline_schedule.hpp"
#include "libsim/trace/program_version.hpp"
#include "libsim/trace/trace_error.hpp"

namespace stagecraft {

namespace {

struct Command {
  std::string_view name;
  std::string_view summary;
  int (*run)(std::vector<std::string> const& arguments);
};

constexpr std::array commands{
    Command{"simulate", "per-stage memory and iteration time of a run file", simulate_command},
    Command{"reproduce", "the paper's tables and figures, predicted beside published",
            reproduce_command},
    Command{"layer", "one layer, op by op: FLOPs, bytes, saved bytes, time", layer_command},
    Command{"schedule", "a pipeline schedule alone: order, makespan, bubble, chunks in flight",
            schedule_command},
    Command{"compare", "two traces of one plan: memory, times, where the difference comes from",
            compare_command},
    Command{"report", "traces as one HTML page: timeline, memory over time, summary",
            report_command},
    Command{"export", "a trace in the formats of other programs", export_command},
    Command{"system", "the constants of a system, each with its source", system_command},
};

// Exit codes; 3 is "does not fit in memory" and comes from the commands that look at memory.
constexpr int done = 0;
constexpr int failed = 1;
constexpr int bad_input = 2;

void print_usage(std::ostream& out) {
  out << "usage: stagecraft COMMAND [options]\n\n"
         "Predicts memory and iteration time of pipeline-parallel Transformer training.\n\n"
         "commands:\n";
  for (Command const& command : commands) {
    std::string name{command.name};
    name.resize(12, ' ');
    out << "  " << name << command.summary << '\n';
  }
  out << "\nstagecraft COMMAND --help says more about one.\n"
         "\nexamples:\n  stagecraft simulate configs/paper/175b-present.yaml\n"
         "  stagecraft schedule --schedule interleaved -p 4 -n 8 -m 2\n";
}

int dispatch(std::vector<std::string> const& words) {
  if (words.empty()) {
    print_usage(std::cerr);
    return bad_input;
  }
  if (words[0] == "--help" || words[0] == "-h") {
    print_usage(std::cout);
    return done;
  }
  if (words[0] == "--version") {
    std::cout << "stagecraft " << program_version() << "\nbuilt with " << program_features()
              << '\n';
    return done;
  }
  std::string names;
  for (Command const& command : commands) {
    if (command.name == words[0]) return command.run({words.begin() + 1, words.end()});
    names += (names.empty() ? "" : ", ") + std::string{command.name};
  }
  throw CommandLineError{"command: found '" + words[0] + "'; accepted: " + names};
}

bool is_command(std::string_view word) {
  return std::any_of(commands.begin(), commands.end(),
                     [word](Command const& command) { return command.name == word; });
}

/// Runs a command and turns what it throws into an exit code. The only place that catches.
int run(std::vector<std::string> const& words) {
  std::string const who =
      !words.empty() && is_command(words[0]) ? "stagecraft " + words[0] : "stagecraft";
  try {
    int const code = dispatch(words);
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
  } catch (TraceFileError const& error) {
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

}  // namespace

}  // namespace stagecraft

int main(int argc, char** argv) { return stagecraft::run({argv + 1, argv + argc}); }
