#include "apps/stagecraft/simulate_command.hpp"

#include <algorithm>
#include <iostream>

#include "apps/stagecraft/run_options.hpp"
#include "libsim/engine/simulation.hpp"
#include "libsim/report/simulation_json.hpp"
#include "libsim/report/simulation_tables.hpp"

namespace stagecraft {

namespace po = boost::program_options;

namespace {

constexpr int does_not_fit = 3;

constexpr char const* introduction =
    "usage: stagecraft simulate CONFIG [options]\n\n"
    "Predicts, for every pipeline stage, what it holds in memory at its peak, and how long an\n"
    "iteration takes and what the time goes to.\n\n";

constexpr char const* examples =
    "\nexamples:\n"
    "  stagecraft simulate configs/paper/175b-present.yaml\n"
    "  stagecraft simulate configs/paper/175b-present.yaml --set recompute=full --set batch.micro=2\n"
    "  stagecraft simulate configs/paper/22b-full.yaml --json --require-fit\n";

po::options_description describe_options() {
  po::options_description options{"options"};
  options.add_options()("require-fit", "exit with 3 if a stage does not fit into its memory");
  add_run_options(options);
  return options;
}

nlohmann::ordered_json document(Simulation const& simulation,
                                TrainingPlan const& plan,
                                RunConfig const& config) {
  nlohmann::ordered_json json = to_json(simulation, plan);
  json["config"] = to_json(config);
  json["warnings"] = config.warnings;
  return json;
}

}  // namespace

int simulate_command(std::vector<std::string> const& arguments) {
  RunArguments const run =
      read_run_arguments(arguments, describe_options(), introduction, examples);
  if (run.is_over) return 0;
  TrainingPlan const plan = make_plan(run.config.training);
  Simulation const simulation = simulate(plan, run.config.system);
  if (run.values.count("json") > 0) {
    std::cout << document(simulation, plan, run.config).dump(1) << '\n';
  } else {
    std::cout << simulation_tables(simulation, plan, run.config.system);
  }
  bool const fits = std::all_of(simulation.stages.begin(),
                                simulation.stages.end(),
                                [](StageResult const& stage) { return stage.fits; });
  return run.values.count("require-fit") > 0 && !fits ? does_not_fit : 0;
}

}  // namespace stagecraft
