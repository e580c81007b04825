#include <cstdio>

#include "libsim/engine/simulation.hpp"
#include "libsim/plan/make_plan.hpp"
#include "libsim/run/config_files.hpp"
#include "libsim/run/paper_config_folder.hpp"

// Prints where it found the paper's configurations, and how long an iteration of one takes.
int main() {
  std::filesystem::path const folder = stagecraft::paper_config_folder();
  stagecraft::RunConfig const config = stagecraft::load_run_config(folder / "22b-full.yaml", {});
  stagecraft::TrainingPlan const plan = stagecraft::make_plan(as_settled(config.training));
  stagecraft::Simulation const simulation = stagecraft::simulate(plan, config.system);
  std::printf("%s\n%lld ps\n", folder.c_str(),
              static_cast<long long>(simulation.iteration.count()));
}
