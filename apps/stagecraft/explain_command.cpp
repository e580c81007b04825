#include <iostream>
#include <optional>
#include <utility>

#include "apps/program/shared_options.hpp"
#include "apps/stagecraft/commands.hpp"
#include "apps/stagecraft/terminal.hpp"
#include "libsim/explain/explanation.hpp"
#include "libsim/explain/explanation_json.hpp"
#include "libsim/explain/explanation_text.hpp"

namespace stagecraft {

namespace {

int run_explain(CommandLine const& line) {
  RunArguments const run = read_run_arguments(line);
  if (run.is_over) return 0;

  RunConfig as_read = run.config;
  as_read.training = run.as_read;
  int const jobs = core_count();
  std::optional<ProgressBar> bar{std::in_place};
  Explanation const explanation =
      explain(as_read, {.jobs = jobs,
                        .has_pairs = line.has("pairs"),
                        .progress = [&](std::size_t done, std::size_t all) {
                          auto const count = static_cast<double>(done);
                          bar->show("simulating changes", count / static_cast<double>(all), count,
                                    "changes");
                        }});
  bar.reset();
  if (line.has("json")) {
    std::cout << to_json(explanation, as_read).dump(1) << '\n';
  } else {
    std::cout << explanation_text(
        explanation, as_read,
        {.width = standard_output_style().width, .shows_all = line.has("all")});
  }
  return 0;
}

}  // namespace

Command explain_command() {
  return {
      .name = "explain",
      .summary = "what fills the fullest stage, how time is spent, what each change would do",
      .introduction = R"(usage: stagecraft explain CONFIG [options]

Says why the fullest stage is as full as it is (at which event, which tensors, made by whom),
what the time of an iteration consists of (its critical path), what each single change would
do to both, which helps most, and which choices of the run do not pay. With --pairs, what every
two of these changes would do together.
)",
      .examples = R"(  stagecraft explain configs/paper/175b-present.yaml
  stagecraft explain configs/paper/530b-full.yaml --set batch.micro=2 --all
  stagecraft explain configs/paper/22b-present.yaml --json
  stagecraft explain configs/paper/175b-full.yaml --pairs
)",
      .options = joined_options(
          {{{.name = "all", .description = "list every tensor, and say why changes are not legal"},
            {.name = "pairs", .description = "simulate every two of the changes together, too"}},
           run_options()}),
      .argument = run_file(),
      .run = run_explain};
}

}  // namespace stagecraft
