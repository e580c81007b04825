#include "apps/stagecraft/compare_command.hpp"

#include <iostream>

#include "apps/stagecraft/command_line.hpp"
#include "apps/stagecraft/terminal.hpp"
#include "libsim/report/comparison.hpp"
#include "libsim/report/comparison_text.hpp"

namespace stagecraft {

namespace po = boost::program_options;

namespace {

constexpr char const* introduction =
    "usage: stagecraft compare A.h5 B.h5 [options]\n\n"
    "Holds two traces of one plan against each other, predicted or executed: memory at the peak "
    "of\n"
    "each stage by category, time by op and phase, iteration, and where the difference comes "
    "from.\n"
    "Traces of two plans are refused.\n\n";

constexpr char const* examples =
    "\nexamples:\n"
    "  stagecraft compare predicted.h5 executed.h5\n"
    "  stagecraft compare selene.h5 h200.h5 --json\n"
    "  stagecraft compare full.h5 selective.h5 --force\n";

po::options_description describe_options() {
  po::options_description options{"options"};
  auto add = options.add_options();
  add("force", "compare traces of two plans all the same");
  add("json", "print one JSON document");
  add("help,h", "print this");
  return options;
}

}  // namespace

int compare_command(std::vector<std::string> const& arguments) {
  po::options_description const options = describe_options();
  std::vector<std::string> files;
  po::variables_map const values = parse_options(arguments, options, files, "TRACE.h5");
  if (values.count("help") > 0) {
    std::cout << introduction << options << examples;
    return 0;
  }
  if (files.size() != 2) {
    throw CommandLineError{"found " + std::to_string(files.size()) +
                           " files; accepted: two traces"};
  }
  PlanCheck const check = values.count("force") > 0 ? PlanCheck::any_plan : PlanCheck::same_plan;
  Comparison const comparison = compare(TraceReader{files[0]}, TraceReader{files[1]}, check);
  if (values.count("json") > 0) {
    // Names come from files and may be no UTF-8.
    auto const replace = nlohmann::ordered_json::error_handler_t::replace;
    std::cout << to_json(comparison).dump(1, ' ', false, replace) << '\n';
  } else {
    std::cout << comparison_tables(comparison, standard_output_style().width);
  }
  return 0;
}

}  // namespace stagecraft
