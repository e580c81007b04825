#include <algorithm>
#include <iostream>
#include <memory>
#include <optional>

#include "apps/program/command_line.hpp"
#include "apps/program/run_options.hpp"
#include "apps/stagecraft-exec/commands.hpp"
#include "apps/stagecraft-exec/device_choice.hpp"
#include "apps/stagecraft-exec/layer_table.hpp"
#include "apps/stagecraft-exec/system_costs.hpp"
#include "libexec/executor/executable.hpp"
#include "libsim/host/program_version.hpp"
#include "libsim/plan/fingerprint.hpp"
#include "libsim/plan/make_plan.hpp"
#include "libsim/run/config_files.hpp"
#include "libsim/run/paper_config_folder.hpp"

namespace stagecraft {

namespace {

constexpr int most_repetitions = 1'000'000;
constexpr int warm_ups = 1;

/// Whether a rank's layer is the same in both runs.
bool have_same_layer(TrainingConfig const& a, TrainingConfig const& b) {
  return a.model == b.model && a.parallel.tensor == b.parallel.tensor &&
         a.parallel.sequence == b.parallel.sequence && a.batch.micro == b.batch.micro;
}

/// One of the five cases, with what its measurement needs. A case that differs from an earlier one
/// only in sequence parallelism over a single rank uses the measurements of that one.
class Case {
 public:
  Case(RunArguments const& run,
       PaperCase const& paper_case,
       DeviceChoice const& device,
       std::vector<std::unique_ptr<Case>> const& earlier)
      : config_{load(run, paper_case)},
        plan_{make_plan(as_settled(config_.training))},
        cost_{config_.system, plan_},
        costs_{cost_},
        twin_{twin_among(earlier)} {
    if (twin_ == nullptr) layer_.emplace(config_.training, parts(device), device.cpu.threads);
    if (twin_ != nullptr) row_.same_as = twin_->row_.case_name;
    row_.case_name = paper_case.name;
    row_.plan = fingerprint(plan_);
    row_.predicted = predict_layer(config_);
    RunConfig const paper = load_table4_run(paper_config_folder(), paper_case);
    bool const is_published = have_same_layer(paper.training, config_.training);
    if (is_published) row_.published = published_layer(paper_case.name);
  }

  void warm_up() {
    if (layer_) layer_->run();
  }
  void measure() {
    if (layer_) row_.samples.push_back(layer_->run());
  }
  LayerRow row() const {
    Case const& measured = twin_ == nullptr ? *this : *twin_;
    LayerRow row = row_;
    row.samples = measured.row_.samples;
    row.saved = measured.layer_->saved();
    return row;
  }

 private:
  static RunConfig load(RunArguments const& run, PaperCase const& paper_case) {
    std::vector<std::string> overrides = run.overrides;
    overrides.insert(overrides.end(), paper_case.overrides.begin(), paper_case.overrides.end());
    return load_run_config(run.path, overrides);
  }

  Case const* twin_among(std::vector<std::unique_ptr<Case>> const& earlier) const {
    if (config_.training.parallel.tensor > 1) return nullptr;
    for (auto const& other : earlier) {
      TrainingConfig alike = other->config_.training;
      alike.parallel.sequence = config_.training.parallel.sequence;
      if (alike == config_.training) return other.get();
    }
    return nullptr;
  }

  ExecutionParts parts(DeviceChoice const& device) const {
    ExecutionParts parts = device.parts();
    parts.costs = &costs_;
    return parts;
  }

  RunConfig config_;
  TrainingPlan plan_;
  CostModel cost_;
  SystemCosts costs_;
  Case const* twin_;  ///< has the measurements; null: this one
  std::optional<MeasuredLayer> layer_;
  LayerRow row_;
};

int measure_layer(CommandLine const& line) {
  RunArguments const run = read_run_arguments(line);
  if (run.is_over) return 0;
  require_executable(run.config.training);
  require_executable_alone(run.config.training);
  int const repetitions = line.whole_number("repeats", 1, most_repetitions);
  DeviceChoice const device = choose_device(line, cpu_only_because_of(run.config.training));
  std::vector<std::unique_ptr<Case>> cases;
  for (PaperCase const& paper_case : paper_cases()) {
    cases.push_back(std::make_unique<Case>(run, paper_case, device, cases));
  }
  for (auto const& one : cases) {
    for (int i = 0; i < warm_ups; ++i) one->warm_up();
  }
  // The cases take turns, so that other load on the machine affects all of them.
  for (int i = 0; i < repetitions; ++i) {
    for (auto const& one : cases) one->measure();
  }
  LayerTable table{.device = device.name, .system = run.config.system.name, .rows = {}};
  for (auto const& one : cases) table.rows.push_back(one->row());
  if (!line.has("json")) {
    std::cout << to_text(table);
    return 0;
  }
  nlohmann::ordered_json json = to_json(table);
  json["backend"] = device.backend();
  json["threads"] = device.cpu.threads;
  json["version"] = program_version();
  json["config"] = to_json(run.config);
  std::cout << json.dump(1) << '\n';
  return 0;
}

int run_measure(CommandLine const& line) {
  try {
    return measure_layer(line);
  } catch (MemoryLimitError const& error) {
    std::cerr << "stagecraft-exec measure: " << error.what();
    return exit_does_not_fit;
  }
}

Command measure_layer_command() {
  return {
      .name = "layer",
      .introduction = R"(usage: stagecraft-exec measure layer CONFIG [options]

Measures the five cases of table 4 of Korthikanti et al. 2022 on this machine: forward and
backward of one middle layer for one microbatch, without and with sequence parallelism and
recompute, and the bytes that it keeps. One rank's shard runs for real; collectives cost what
the system file says. Beside them is what the simulator predicts for that system.
)",
      .examples =
          R"(  stagecraft-exec measure layer configs/paper/22b-present.yaml --json > layer.json
  stagecraft-exec measure layer configs/examples/gpt2-layer.yaml --set system=here.yaml --repeats 20
)",
      .options = joined_options({{{.name = "repeats",
                                   .value = Value::text("N"),
                                   .fallback = "5",
                                   .description = "times that each case is measured, in turns"}},
                                 device_options(),
                                 run_options()}),
      .argument = run_file(),
      .run = run_measure};
}

}  // namespace

Command measure_command() {
  return {.name = "measure",
          .summary = "one layer on the device at hand, in the five cases of the paper's table 4",
          .subcommands = {measure_layer_command()},
          .subcommand_is = "what to measure"};
}

}  // namespace stagecraft
