#include <algorithm>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "apps/program/command_line.hpp"
#include "apps/program/run_options.hpp"
#include "apps/stagecraft-exec/commands.hpp"
#include "apps/stagecraft-exec/device_choice.hpp"
#include "apps/stagecraft-exec/system_costs.hpp"
#include "libexec/calibration/layer_measurement.hpp"
#include "libexec/calibration/sample_statistics.hpp"
#include "libexec/executor/executable.hpp"
#include "libsim/config/optional_json.hpp"
#include "libsim/engine/simulation.hpp"
#include "libsim/host/program_version.hpp"
#include "libsim/host/schemas.hpp"
#include "libsim/plan/fingerprint.hpp"
#include "libsim/plan/make_plan.hpp"
#include "libsim/report/paper/paper_tables.hpp"
#include "libsim/report/text_table.hpp"
#include "libsim/run/config_files.hpp"
#include "libsim/run/paper_config_folder.hpp"

namespace stagecraft {

namespace {

/// One case of table 4 as it was measured, predicted and, for the paper's own layer, published.
struct LayerRow {
  std::string case_name;
  std::string plan;                           ///< fingerprint of the run with this case's settings
  std::vector<MeasuredLayer::Times> samples;  ///< in the order of the repetitions
  Bytes saved;
  LayerResult predicted;
  std::optional<LayerSeconds> published{};
  std::string same_as{};  ///< the case that was measured instead of this one; empty: none
};

/// What was measured together: the cases took turns in each repetition.
struct LayerTable {
  std::string device;
  std::string system;          ///< gives predictions, and durations of collectives
  std::vector<LayerRow> rows;  ///< the first is the baseline
};

/// The overhead of a case over the baseline in percent: the median over the repetitions.
double overhead_percent(LayerRow const& row, LayerRow const& baseline) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < row.samples.size(); ++i) {
    ratios.push_back(to_seconds(row.samples[i].sum()) / to_seconds(baseline.samples[i].sum()));
  }
  return 100 * (median(ratios) - 1);
}

using Json = nlohmann::ordered_json;

template <typename Part>
double median_of(LayerRow const& row, Part part) {
  std::vector<double> seconds;
  for (MeasuredLayer::Times const& times : row.samples) seconds.push_back(to_seconds(part(times)));
  return median(seconds);
}

LayerSeconds measured(LayerRow const& row) {
  return {.forward = median_of(row, [](auto const& times) { return times.forward; }),
          .backward = median_of(row, [](auto const& times) { return times.backward; })};
}

double spread_of(LayerRow const& row) {
  std::vector<double> sums;
  for (MeasuredLayer::Times const& times : row.samples) sums.push_back(to_seconds(times.sum()));
  return spread_percent(sums);
}

double overhead(LayerSeconds const& layer, LayerSeconds const& baseline) {
  return 100 * (layer.sum() / baseline.sum() - 1);
}

Json to_json(LayerRow const& row, LayerRow const& baseline) {
  LayerSeconds const executed = measured(row);
  LayerSeconds const predicted = seconds_of(row.predicted);
  auto const published = [&](auto number) {
    return part_or_null(row.published, [&](LayerSeconds const& layer) {
      return number(layer, *baseline.published);
    });
  };
  return {{"case", row.case_name},
          {"plan", row.plan},
          {"same_as", text_or_null(row.same_as)},
          {"forward_seconds", executed.forward},
          {"backward_seconds", executed.backward},
          {"forward_communication_seconds",
           median_of(row, [](auto const& times) { return times.forward_communication; })},
          {"backward_communication_seconds",
           median_of(row, [](auto const& times) { return times.backward_communication; })},
          {"overhead_percent", overhead_percent(row, baseline)},
          {"saved_bytes", row.saved.count()},
          {"spread_percent", spread_of(row)},
          {"predicted_forward_seconds", predicted.forward},
          {"predicted_backward_seconds", predicted.backward},
          {"predicted_overhead_percent", overhead(predicted, seconds_of(baseline.predicted))},
          {"predicted_saved_bytes", row.predicted.saved.count()},
          {"published_forward_seconds", published([](auto own, auto) { return own.forward; })},
          {"published_backward_seconds", published([](auto own, auto) { return own.backward; })},
          {"published_overhead_percent", published(overhead)}};
}

std::string twins_text(LayerTable const& table) {
  std::string twins;
  for (LayerRow const& row : table.rows) {
    if (row.same_as.empty()) continue;
    twins += (twins.empty() ? "" : ", ") + row.case_name + " is " + row.same_as;
  }
  return twins.empty() ? ""
                       : "note: sequence parallelism has no effect with tensor 1: " + twins +
                             ", measured once\n";
}

/// Schema stagecraft.layer/1, without what only the caller knows. Times are medians in seconds.
Json to_json(LayerTable const& table) {
  Json rows = Json::array();
  for (LayerRow const& row : table.rows) rows.push_back(to_json(row, table.rows.front()));
  return {{"schema", layer_schema},
          {"device", table.device},
          {"system", table.system},
          {"repeats", table.rows.front().samples.size()},
          {"rows", rows}};
}

std::string to_text(LayerTable const& table) {
  LayerRow const& baseline = table.rows.front();
  bool const has_paper = baseline.published.has_value();
  ByteUnit const unit = unit_for(baseline.saved.count());
  std::vector<TextTable::Column> columns{{"case", Align::left}};
  for (char const* const quantity : {"forward ms", "backward ms", "overhead %"}) {
    columns.insert(columns.end(), {{quantity}, {"predicted"}});
    if (has_paper) columns.push_back({"A100"});
  }
  columns.insert(columns.end(), {{"kept " + std::string{unit.name}}, {"predicted"}, {"spread %"}});
  TextTable text{columns};
  for (LayerRow const& row : table.rows) {
    LayerSeconds const executed = measured(row);
    LayerSeconds const predicted = seconds_of(row.predicted);
    std::vector<std::string> cells{row.case_name};
    auto const add = [&](double own, double model, auto published, double factor, int digits) {
      cells.push_back(decimals(own * factor, digits));
      cells.push_back(decimals(model * factor, digits));
      if (!has_paper) return;
      cells.push_back(decimals(published(*row.published, *baseline.published) * factor, digits));
    };
    add(
        executed.forward, predicted.forward, [](auto own, auto) { return own.forward; }, 1e3, 2);
    add(
        executed.backward, predicted.backward, [](auto own, auto) { return own.backward; }, 1e3, 2);
    add(overhead_percent(row, baseline), overhead(predicted, seconds_of(baseline.predicted)),
        overhead, 1, 1);
    cells.push_back(in_unit(unit, row.saved.count()));
    cells.push_back(in_unit(unit, row.predicted.saved.count()));
    cells.push_back(decimals(spread_of(row), 1));
    text.add_row(std::move(cells));
  }
  return "one layer for one microbatch, measured on " + table.device + ", predicted for " +
         table.system + "; backward includes recompute\n" + text.text() + twins_text(table);
}

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
