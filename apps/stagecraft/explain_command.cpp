#include "apps/stagecraft/explain_command.hpp"

#include <algorithm>
#include <iostream>
#include <thread>

#include "apps/stagecraft/run_options.hpp"
#include "apps/stagecraft/terminal.hpp"
#include "libsim/explain/explanation.hpp"
#include "libsim/explain/explanation_json.hpp"
#include "libsim/explain/explanation_text.hpp"

namespace stagecraft {

namespace po = boost::program_options;

namespace {

constexpr char const* introduction =
    "usage: stagecraft explain CONFIG [options]\n\n"
    "Says why the fullest stage is as full as it is (at which event, which tensors, made by "
    "whom),\n"
    "what the time of an iteration consists of (its critical path), what each single change would\n"
    "do to both, which helps most, and which choices of the run do not pay.\n\n";

constexpr char const* examples =
    "\nexamples:\n"
    "  stagecraft explain configs/paper/175b-present.yaml\n"
    "  stagecraft explain configs/paper/530b-full.yaml --set batch.micro=2 --all\n"
    "  stagecraft explain configs/paper/22b-present.yaml --json\n";

}  // namespace

int explain_command(std::vector<std::string> const& arguments) {
  po::options_description options{"options"};
  options.add_options()("all",
                        "list every tensor, and say why changes that are left out are not legal");
  add_run_options(options);
  RunArguments const run = read_run_arguments(arguments, options, introduction, examples);
  if (run.is_over) return 0;

  RunConfig as_read = run.config;
  as_read.training = run.as_read;
  int const jobs = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  Explanation const explanation = explain(as_read, jobs);
  if (run.values.count("json") > 0) {
    std::cout << to_json(explanation, as_read).dump(1) << '\n';
  } else {
    std::cout << explanation_text(
        explanation, as_read,
        {.width = standard_output_style().width, .shows_all = run.values.count("all") > 0});
  }
  return 0;
}

}  // namespace stagecraft
