#include "libsim/report/paper/executed_reproduction.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>

#include "libsim/engine/simulation.hpp"
#include "libsim/plan/fingerprint.hpp"
#include "libsim/plan/make_plan.hpp"
#include "libsim/report/paper/executed_results.hpp"

namespace stagecraft {
namespace {

/// A run of table 5, or its twin.
struct PaperRun {
  std::string model;
  std::string case_name;
  std::string file;
  TrainingPlan plan;
  System system;
};

/// All runs of table 5 if `suffix` is empty; with "-twin", those that have a run file.
std::vector<PaperRun> paper_runs(std::filesystem::path const& paper_configs,
                                 std::string const& suffix) {
  std::vector<PaperRun> runs;
  for (PaperModel const& model : paper_models()) {
    for (std::string const case_name : {"full", "present"}) {
      std::string const file = model.file + "-" + case_name + suffix + ".yaml";
      if (!suffix.empty() && !std::filesystem::exists(paper_configs / file)) continue;
      RunConfig const run = load_paper_run(paper_configs, model, case_name + suffix);
      runs.push_back({.model = model.name + (suffix.empty() ? "" : " twin"),
                      .case_name = case_name,
                      .file = file,
                      .plan = make_plan(as_settled(run.training)),
                      .system = run.system});
    }
  }
  return runs;
}

/// Collects the notes of a table, each of them once.
class Notes {
 public:
  void found(std::string const& what, std::string const& device, std::string const& file) {
    add(what + " executed on " + device + ": " + file);
  }
  void missing(std::string const& what, std::string const& plan, TrainingConfig const& config) {
    missing_.push_back({.what = what, .plan = plan, .ranks = world_size(config.parallel)});
  }
  void add(std::string const& note) {
    if (known_.insert(note).second) notes_.push_back(note);
  }
  void move_to(Reproduction& table) && {
    table.has_executed = true;
    table.notes = std::move(notes_);
    table.missing = std::move(missing_);
  }

 private:
  std::set<std::string> known_;
  std::vector<std::string> notes_;
  std::vector<NotExecuted> missing_;
};

/// The measured layers of table 4, by case.
using ExecutedCases = std::map<std::string, ExecutedLayer const*>;

ExecutedCases execute_table4(Reproduction& table,
                             ExecutedResults const& results,
                             std::filesystem::path const& paper_configs,
                             ExecutedPlans& plans) {
  Notes notes;
  ExecutedCases cases;
  for (PaperCase const& paper_case : paper_cases()) {
    TrainingConfig const config = load_table4_run(paper_configs, paper_case).training;
    std::string const plan = fingerprint(make_plan(as_settled(config)));
    plans.layers.insert(plan);
    ExecutedLayer const* const layer = results.layer_of(plan);
    if (layer == nullptr) {
      notes.missing("22B " + paper_case.name, plan, config);
      continue;
    }
    cases[paper_case.name] = layer;
    notes.found("22B " + paper_case.name, layer->device, layer->file);
    for (ReproductionRow& row : table.rows) {
      if (row.case_name != paper_case.name) continue;
      row.executed =
          row.quantity == "forward_seconds" ? layer->seconds.forward : layer->seconds.backward;
    }
  }
  std::move(notes).move_to(table);
  return cases;
}

void execute_overheads(Reproduction& table, ExecutedCases const& cases) {
  table.has_executed = true;
  auto const baseline = cases.find("baseline");
  if (baseline == cases.end()) return;
  for (ReproductionRow& row : table.rows) {
    auto const layer = cases.find(row.case_name);
    if (layer == cases.end()) continue;
    row.executed = 100 * (layer->second->seconds.sum() / baseline->second->seconds.sum() - 1);
  }
}

/// The iteration of a run, composed of stages that were executed alone.
std::optional<double> compose(PaperRun const& run, StagesAlone const& stages, Notes& notes) {
  std::string const what =
      run.file + ": " + stages.names() + " executed alone on " + stages.results->device + " with " +
      std::to_string(stages.plan.config.batch.global) + " sequences (" + stages.files() + ")";
  try {
    double const overhead = run.system.calibration.iteration_overhead.value.value;
    double const seconds = composed_seconds(run.plan, run.system, stages) + overhead;
    notes.add(what + ", the iteration composed of them: communication as modelled" +
              (overhead > 0 ? ", and " + run.system.name + "'s overhead per iteration" : ""));
    return seconds;
  } catch (std::invalid_argument const& reason) {
    notes.add(what + ", no iteration composed: " + reason.what());
    return std::nullopt;
  }
}

/// The executed time of a run of table 5 or of its twins.
std::optional<double> iteration_of(PaperRun const& run,
                                   ExecutedResults const& results,
                                   Notes& notes) {
  std::string const plan = fingerprint(run.plan);
  ExecutedRun const* const executed = results.run_of(plan);
  if (executed == nullptr || !executed->is_whole()) {
    auto const stages = find_stages_alone(run.plan.config, results);
    if (stages) return compose(run, *stages, notes);
    notes.missing(run.file, plan, run.plan.config);
    return std::nullopt;
  }
  notes.found(run.file, executed->device + ", " + std::string{name_of(executed->clock)} + " time",
              executed->file);
  std::string const& planned = run.system.accelerator.name;
  if (executed->device.find(planned) == std::string::npos) {
    notes.add("predicted for " + planned + ", executed elsewhere: their times need not agree");
  }
  return executed->iteration_seconds;
}

void execute_table5(Reproduction& table,
                    std::vector<PaperRun> const& runs,
                    ExecutedResults const& results) {
  Notes notes;
  for (PaperRun const& run : runs) {
    std::optional<double> const seconds = iteration_of(run, results, notes);
    for (ReproductionRow& row : table.rows) {
      if (row.model == run.model && row.case_name == run.case_name) row.executed = seconds;
    }
  }
  std::move(notes).move_to(table);
}

Reproduction predict_twins(std::vector<PaperRun> const& twins) {
  Reproduction table{.name = "table5_twins",
                     .title = "an iteration of small twins of table 5's runs"};
  for (PaperRun const& twin : twins) {
    Simulation const predicted = simulate(twin.plan, twin.system);
    table.add(twin.model, twin.case_name, "iteration_seconds", std::nullopt,
              to_seconds(predicted.iteration));
  }
  return table;
}

void add_memory(Reproduction& table, PaperRun const& run, ExecutedResults const& results) {
  ExecutedRun const* executed = results.run_of(fingerprint(run.plan));
  auto const stages = find_stages_alone(run.plan.config, results);
  bool const is_whole = executed != nullptr && executed->is_whole();
  if (!is_whole && !stages) return;
  if (!is_whole) executed = stages->results;
  Simulation const predicted = simulate(is_whole ? run.plan : stages->plan, run.system);
  for (auto const& [stage, bytes] : executed->peak_bytes) {
    CategoryBytes const& at_peak = predicted.stages.at(static_cast<std::size_t>(stage)).at_peak;
    table.rows.push_back(
        {.model = run.model,
         .case_name = run.case_name,
         .quantity = "peak_bytes",
         .stage = stage,
         .predicted = static_cast<double>(at_peak.sum() - at_peak[Category::workspace]),
         .executed = static_cast<double>(bytes)});
  }
}

/// "3 files are of other plans: a, b, c"; empty if there are none.
std::string naming_note(std::vector<std::string> const& files,
                        std::string const& one,
                        std::string const& many) {
  constexpr std::size_t most_named = 4;
  if (files.empty()) return {};
  std::string text = std::to_string(files.size()) + " " + (files.size() == 1 ? one : many) + ": ";
  for (std::size_t i = 0; i < std::min(most_named, files.size()); ++i) {
    text += (i == 0 ? "" : ", ") + files[i];
  }
  if (files.size() > most_named) {
    text += " and " + std::to_string(files.size() - most_named) + " more";
  }
  return text;
}

/// Adds notes on the files of the folder that belong to no row.
void add_unused(Reproduction& table, ExecutedResults const& results, ExecutedPlans const& plans) {
  for (std::string const& note :
       {naming_note(results.files_without(plans), "executed result matches no row",
                    "executed results match no row"),
        naming_note(results.simulated_files(), "trace is of a simulation",
                    "traces are of simulations"),
        naming_note(results.foreign_files(), "HDF5 file is not a trace",
                    "HDF5 files are not traces"),
        naming_note(results.damaged_files(), "file cannot be read", "files cannot be read")}) {
    if (!note.empty()) table.notes.push_back(note);
  }
}

}  // namespace

void add_executed(std::vector<Reproduction>& tables,
                  ExecutedResults const& results,
                  std::filesystem::path const& paper_configs) {
  auto const place_of_table = [&](std::string_view name) {
    return std::find_if(tables.begin(), tables.end(),
                        [name](Reproduction const& table) { return table.name == name; });
  };
  ExecutedPlans plans;
  auto const table4 = place_of_table("table4");
  if (table4 != tables.end()) {
    ExecutedCases const cases = execute_table4(*table4, results, paper_configs, plans);
    execute_overheads(*place_of_table("table4_overheads"), cases);
  }
  auto const table5 = place_of_table("table5");
  if (table5 == tables.end()) {
    if (table4 != tables.end()) add_unused(*table4, results, plans);
    return;
  }
  std::vector<PaperRun> const runs = paper_runs(paper_configs, "");
  std::vector<PaperRun> const twins = paper_runs(paper_configs, "-twin");
  execute_table5(*table5, runs, results);
  for (std::vector<PaperRun> const* const some : {&runs, &twins}) {
    for (PaperRun const& run : *some) {
      plans.runs.insert(fingerprint(run.plan));
      auto const stages = find_stages_alone(run.plan.config, results);
      if (stages) plans.runs.insert(fingerprint(stages->plan));
    }
  }
  add_unused(*table5, results, plans);
  Reproduction twin_times = predict_twins(twins);
  execute_table5(twin_times, twins, results);
  Reproduction memory{.name = "table5_memory",
                      .title = "the most that a rank of a stage holds, without workspace",
                      .has_executed = true};
  for (PaperRun const& run : runs) add_memory(memory, run, results);
  for (PaperRun const& twin : twins) add_memory(memory, twin, results);
  tables.push_back(std::move(twin_times));
  tables.push_back(std::move(memory));
}

}  // namespace stagecraft
