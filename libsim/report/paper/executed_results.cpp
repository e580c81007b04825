#include "libsim/report/paper/executed_results.hpp"

#include <algorithm>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <system_error>
#include <tuple>
#include <utility>

#include "libsim/config/problem.hpp"
#include "libsim/engine/composed_iteration.hpp"
#include "libsim/host/schemas.hpp"
#include "libsim/plan/fingerprint.hpp"
#include "libsim/plan/make_plan.hpp"
#include "libsim/report/trace_summary.hpp"
#include "libsim/run/config_files.hpp"
#include "libsim/schedule/orders/schedule_error.hpp"
#include "libsim/trace/trace.hpp"
#include "libsim/trace/trace_reader.hpp"

namespace stagecraft {

namespace {

/// The plan with another global batch; nullopt if its schedule does not allow that number of
/// microbatches.
std::optional<TrainingPlan> plan_with(TrainingConfig config, std::int64_t sequences) {
  std::int64_t const at_once = config.batch.micro * config.parallel.data;
  if (sequences < at_once || sequences % at_once != 0) return std::nullopt;
  config.batch.global = sequences;
  try {
    return make_plan(as_settled(std::move(config)));
  } catch (ScheduleError const&) {
    return std::nullopt;
  }
}

namespace fs = std::filesystem;

/// The files of a folder with an extension, the oldest first.
std::vector<fs::path> files_of(fs::path const& folder, std::string const& extension) {
  std::vector<std::pair<fs::file_time_type, fs::path>> found;
  std::error_code error;
  for (fs::directory_iterator entry{folder, error}; !error && entry != fs::directory_iterator{};
       entry.increment(error)) {
    if (entry->path().extension() != extension) continue;
    found.emplace_back(entry->last_write_time(error), entry->path());
    if (error) break;
  }
  if (error) throw InputError{folder.string() + ": could not read the folder: " + error.message()};
  std::sort(found.begin(), found.end());
  std::vector<fs::path> paths;
  paths.reserve(found.size());
  for (auto& [time, path] : found) paths.push_back(std::move(path));
  return paths;
}

ExecutedRun summarize_run(TraceReader const& trace) {
  ExecutedRun run{.file = trace.name(), .device = trace.meta().device, .clock = trace.meta().clock};
  std::int64_t end = 0;
  for (RankSummary const& rank : summarize(trace)) {
    if (!run.is_whole()) run.alone[rank.stage] = trace.name();
    end = std::max(end, rank.times.end);
    std::int64_t& peak = run.peak_bytes[rank.stage];
    peak = std::max(peak, rank.at_peak.sum() - rank.at_peak[Category::workspace]);
  }
  run.iteration_seconds = to_seconds(SimTime{end});
  return run;
}

}  // namespace

std::string StagesAlone::names() const {
  std::string text = results->alone.size() == 1 ? "stage " : "stages ";
  char const* separator = "";
  for (auto const& [stage, file] : results->alone) {
    text += separator + std::to_string(stage);
    separator = ", ";
  }
  return text;
}

std::string StagesAlone::files() const {
  std::string text;
  for (auto const& [stage, file] : results->alone) text += (text.empty() ? "" : ", ") + file;
  return text;
}

std::optional<StagesAlone> find_stages_alone(TrainingConfig const& config,
                                             ExecutedResults const& results) {
  auto const merit = [&](StagesAlone const& stages) {
    std::int64_t const sequences = stages.plan.config.batch.global;
    return std::tuple{sequences == config.batch.global, stages.results->alone.size(), sequences};
  };
  std::optional<StagesAlone> best;
  for (std::int64_t const sequences : results.batches_alone()) {
    std::optional<TrainingPlan> plan = plan_with(config, sequences);
    if (!plan) continue;
    ExecutedRun const* const run = results.run_of(fingerprint(*plan));
    if (run == nullptr || run->is_whole()) continue;
    StagesAlone found{std::move(*plan), run};
    if (!best || merit(found) > merit(*best)) best = std::move(found);
  }
  return best;
}

double composed_seconds(TrainingPlan const& plan, System const& system, StagesAlone const& stages) {
  std::map<StageId, std::vector<MeasuredTask>> measured;
  for (auto const& [stage, file] : stages.results->alone) {
    TraceReader const trace{file};
    StageId const id{stage};
    measured[id] = measured_tasks(stages.plan.stages.at(id), trace.read(trace.ranks().front()));
  }
  return to_seconds(compose_iteration(CostedPlan{plan, system}, measured));
}

ExecutedResults::ExecutedResults(fs::path const& folder) {
  auto const add_each = [&](std::string const& extension, auto const& add) {
    for (fs::path const& path : files_of(folder, extension)) {
      try {
        add(path);
      } catch (InputError const& error) {
        damaged_.emplace_back(error.what());
      }
    }
  };
  add_each(".h5", [this](fs::path const& path) { add_trace(path); });
  add_each(".json", [this](fs::path const& path) { add_layers(path); });
  std::sort(damaged_.begin(), damaged_.end());
  std::sort(simulated_.begin(), simulated_.end());
  std::sort(foreign_.begin(), foreign_.end());
}

std::vector<std::string> ExecutedResults::files_without(ExecutedPlans const& plans) const {
  auto const have_common = [](std::set<std::string> const& a, std::set<std::string> const& b) {
    return std::any_of(a.begin(), a.end(),
                       [&](std::string const& plan) { return b.count(plan) > 0; });
  };
  std::vector<std::string> files;
  for (auto const& [file, own] : plans_) {
    bool const has_any = have_common(own.runs, plans.runs) || have_common(own.layers, plans.layers);
    if (!has_any) files.push_back(file);
  }
  return files;
}

void ExecutedResults::add_trace(fs::path const& path) {
  std::optional<TraceReader> opened;
  try {
    opened.emplace(path);
  } catch (ForeignFileError const&) {
    foreign_.push_back(path.string());
    return;
  }
  TraceReader const& trace = *opened;
  if (trace.meta().clock == TraceClock::simulated) {
    simulated_.push_back(path.string());
    return;
  }
  ExecutedRun run = summarize_run(trace);
  if (!run.is_whole()) {
    try {
      batches_alone_.insert(parse_run_config(trace.meta().config, path, {}).training.batch.global);
    } catch (ConfigError const&) {
      // A file of a version with other keys, whose plan cannot be one of ours.
    }
  }
  auto const [place, is_first] = runs_.try_emplace(trace.meta().plan, run);
  ExecutedRun& known = place->second;
  if (!is_first && (run.is_whole() || !known.is_whole())) {
    // Ranks that ran alone add their stages to those that are known.
    if (!run.is_whole() && run.device == known.device) {
      run.peak_bytes.merge(known.peak_bytes);
      run.alone.merge(known.alone);
    }
    known = std::move(run);
  }
  plans_[path.string()].runs.insert(trace.meta().plan);
}

void ExecutedResults::add_layers(fs::path const& path) {
  try {
    std::ifstream file{path};
    nlohmann::json const document = nlohmann::json::parse(file);
    if (!document.is_object() || document.value("schema", "") != layer_schema) return;
    for (nlohmann::json const& row : document.at("rows")) {
      ExecutedLayer layer{.file = path.string(),
                          .device = document.at("device"),
                          .seconds = {.forward = row.at("forward_seconds"),
                                      .backward = row.at("backward_seconds")}};
      layers_.insert_or_assign(row.at("plan"), std::move(layer));
      plans_[path.string()].layers.insert(row.at("plan"));
    }
  } catch (nlohmann::json::exception const& problem) {
    throw InputError{path.string() + ": " + problem.what()};
  }
}

}  // namespace stagecraft
