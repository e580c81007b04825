#include <iostream>

#include "apps/program/shared_options.hpp"
#include "apps/stagecraft/commands.hpp"
#include "libsim/plan/make_plan.hpp"
#include "libsim/report/layer_report.hpp"

namespace stagecraft {

namespace {

int run_layer(CommandLine const& line) {
  RunArguments const run = read_run_arguments(line);
  if (run.is_over) return 0;
  TrainingPlan const plan = make_plan(as_settled(run.config.training));
  CostModel const cost{run.config.system, plan};
  std::vector<LayerReport> const reports = report_layers(plan, cost);
  if (line.has("json")) {
    std::cout << layers_document(plan, reports).dump(1) << '\n';
    return 0;
  }
  for (std::size_t i = 0; i < reports.size(); ++i) {
    if (reports.size() > 1) {
      std::cout << (i == 0 ? "" : "\n") << "layer block " << i + 1 << " of " << reports.size()
                << ", which differ in policy, in size or in what the host has\n\n";
    }
    std::cout << to_text(reports[i]);
  }
  return 0;
}

}  // namespace

Command layer_command() {
  return {.name = "layer",
          .summary = "one layer, op by op: FLOPs, traffic, saved bytes, time",
          .introduction = R"(usage: stagecraft layer CONFIG [options]

Shows one Transformer layer for one microbatch on one rank, op by op: shape, FLOPs, bytes moved,
bytes saved for backward, and time; then the saved tensors beside the paper's closed form.
)",
          .examples = R"(  stagecraft layer configs/paper/22b-present.yaml
  stagecraft layer configs/paper/22b-full.yaml --set recompute=none
)",
          .options = run_options(),
          .argument = run_file(),
          .run = run_layer};
}

}  // namespace stagecraft
