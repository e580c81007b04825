#include <iostream>

#include "apps/program/command_line.hpp"
#include "apps/stagecraft/commands.hpp"
#include "apps/stagecraft/terminal.hpp"
#include "libsim/report/comparison.hpp"
#include "libsim/report/comparison_text.hpp"

namespace stagecraft {

namespace {

int run_compare(CommandLine const& line) {
  std::vector<std::string> const& files = line.arguments();
  if (files.size() != 2) {
    throw CommandLineError{"found " + std::to_string(files.size()) +
                           " files; accepted: two traces"};
  }
  PlanCheck const check = line.has("force") ? PlanCheck::any_plan : PlanCheck::same_plan;
  Comparison const comparison = compare(TraceReader{files[0]}, TraceReader{files[1]}, check);
  if (line.has("json")) {
    // Names come from files and may not be UTF-8.
    auto const replace = nlohmann::ordered_json::error_handler_t::replace;
    std::cout << to_json(comparison).dump(1, ' ', false, replace) << '\n';
  } else {
    std::cout << comparison_tables(comparison, standard_output_style().width);
  }
  return 0;
}

}  // namespace

Command compare_command() {
  return {.name = "compare",
          .summary = "two traces of one plan: memory, times, and the causes of differences",
          .introduction = R"(usage: stagecraft compare A.h5 B.h5 [options]

Holds two traces of one plan against each other, predicted or executed: memory at the peak of
each stage by category, time by op and phase, iteration, and where the difference comes from.
Traces of two plans are refused.
)",
          .examples = R"(  stagecraft compare predicted.h5 executed.h5
  stagecraft compare selene.h5 h200.h5 --json
  stagecraft compare full.h5 selective.h5 --force
)",
          .options = {{.name = "force",
                       .description = "compare even if the traces are of different plans"},
                      {.name = "json", .description = "print one JSON document"}},
          .argument = Value::file("TRACE.h5"),
          .run = run_compare};
}

}  // namespace stagecraft
