#include <fstream>
#include <nlohmann/json.hpp>

#include "libsim/engine/record.hpp"
#include "libsim/engine/simulation.hpp"
#include "libsim/plan/fingerprint.hpp"
#include "libsim/plan/make_plan.hpp"
#include "libsim/run/config_files.hpp"

/// record_for_h5py RUN.yaml CHUNK.h5 OP.h5 PEAKS.json: what read_with_h5py.py reads.
int main(int argc, char** argv) {
  using namespace stagecraft;
  if (argc != 5) return 2;
  RunConfig const config = load_run_config(argv[1], {"parallel.data=2", "batch.global=128"});
  TrainingPlan const plan = make_plan(as_settled(config.training));
  Simulation const simulation = simulate(plan, config.system);
  nlohmann::json stages = nlohmann::json::array();
  for (StageResult const& stage : simulation.stages) {
    nlohmann::json at_peak;
    for (int i = 0; i < category_count; ++i) {
      auto const category = static_cast<Category>(i);
      at_peak[std::string{name_of(category)}] = stage.at_peak[category];
    }
    stages.push_back({{"peak_bytes", stage.peak()},
                      {"peak_at_ps", stage.peak_at.count()},
                      {"activation_peak_bytes", stage.activation_peak},
                      {"at_peak", at_peak}});
  }
  std::ofstream{argv[4]} << nlohmann::json{{"plan", fingerprint(plan)},
                                           {"iteration_ps", simulation.iteration.count()},
                                           {"stages", stages}};
  RecordOptions options;
  options.command_line = "record_for_h5py";
  options.config = to_yaml(config);
  PlayedIteration const played{plan, config.system};
  record_to_file(argv[2], played, options);
  options.detail = TraceDetail::op;
  record_to_file(argv[3], played, options);
}
