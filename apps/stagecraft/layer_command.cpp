#include "apps/stagecraft/layer_command.hpp"

#include <iostream>

#include "apps/stagecraft/run_options.hpp"
#include "libsim/report/layer_report.hpp"

namespace stagecraft {

namespace po = boost::program_options;

namespace {

constexpr char const* introduction =
    "usage: stagecraft layer CONFIG [options]\n\n"
    "Shows one Transformer layer for one microbatch on one rank, op by op: shape, FLOPs, bytes "
    "moved,\n"
    "bytes saved for backward, and time; then the saved tensors beside the paper's closed "
    "form.\n\n";

constexpr char const* examples =
    "\nexamples:\n"
    "  stagecraft layer configs/paper/22b-present.yaml\n"
    "  stagecraft layer configs/paper/22b-full.yaml --set recompute=none\n";

}  // namespace

int layer_command(std::vector<std::string> const& arguments) {
  po::options_description options{"options"};
  add_run_options(options);
  RunArguments const run = read_run_arguments(arguments, options, introduction, examples);
  if (run.is_over) return 0;
  TrainingPlan const plan = make_plan(run.config.training);
  CostModel const cost{run.config.system, run.config.training};
  std::vector<LayerReport> const reports = report_layers(plan, cost);
  if (run.values.count("json") > 0) {
    nlohmann::ordered_json layers = nlohmann::ordered_json::array();
    for (LayerReport const& report : reports) layers.push_back(to_json(report));
    nlohmann::ordered_json const document = {
        {"schema", "stagecraft.layers/1"}, {"plan", fingerprint(plan)}, {"layers", layers}};
    std::cout << document.dump(1) << '\n';
    return 0;
  }
  for (std::size_t i = 0; i < reports.size(); ++i) {
    if (reports.size() > 1) {
      std::cout << (i == 0 ? "" : "\n") << "layer block " << i + 1 << " of " << reports.size()
                << ", which differ in policy or size\n\n";
    }
    std::cout << to_text(reports[i]);
  }
  return 0;
}

}  // namespace stagecraft
