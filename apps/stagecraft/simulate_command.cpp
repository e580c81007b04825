#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "apps/program/command_line.hpp"
#include "apps/program/output_paths.hpp"
#include "apps/program/shared_options.hpp"
#include "apps/stagecraft/commands.hpp"
#include "apps/stagecraft/key_listing.hpp"
#include "apps/stagecraft/operating_options.hpp"
#include "libsim/config/problem.hpp"
#include "libsim/engine/fullest_stage.hpp"
#include "libsim/engine/ready_run.hpp"
#include "libsim/engine/record.hpp"
#include "libsim/engine/simulation.hpp"
#include "libsim/engine/verdict.hpp"
#include "libsim/host/output_file.hpp"
#include "libsim/host/schemas.hpp"
#include "libsim/plan/make_plan.hpp"
#include "libsim/report/key_changes.hpp"
#include "libsim/report/run_verdict.hpp"
#include "libsim/report/simulation_json.hpp"
#include "libsim/report/simulation_tables.hpp"
#include "libsim/report/text_table.hpp"
#include "libsim/run/config_files.hpp"
#include "libsim/run/named_file.hpp"
#include "libsim/run/run_config.hpp"
#include "libsim/run/run_keys.hpp"

namespace stagecraft {

namespace {

/// A run that was simulated, for a what-if.
struct SimulatedRun {
  std::string name;  ///< its file, and what was overridden
  RunConfig const* config = nullptr;
  Simulation const* simulation = nullptr;
};

std::int64_t fullest_peak(Simulation const& simulation) {
  return largest_peak(simulation.stages).count();
}

bool is_by_allocator(SimulatedRun const& run) {
  return decides_by_allocator(run.config->system.software);
}

/// What the verdict is about: the least that is left on a device, or if counted bytes decide,
/// what the fullest stage leaves beside the reserve.
std::int64_t free_bytes(SimulatedRun const& run) {
  std::vector<StageResult> const& stages = run.simulation->stages;
  if (is_by_allocator(run)) {
    return std::ranges::min_element(stages, {}, &StageResult::margin)->margin;
  }
  Bytes const room = room_for(run.config->training.memory, run.config->system.accelerator);
  return (room - largest_peak(stages)).count();
}

double tokens_per_gpu(SimulatedRun const& run) {
  return run.simulation->tokens_per_second / world_size(run.config->training.parallel);
}

/// The GPU hours that training on 10^12 tokens takes.
double gpu_hours_of(SimulatedRun const& run) {
  return gpu_hours_per_trillion_tokens(run.simulation->tokens_per_second,
                                       world_size(run.config->training.parallel));
}

/// A table of a base line, of a run beside it, and of their difference: rates, memory of the
/// fullest stage, the time of the busiest stage. Keys whose values differ are listed first.
std::string what_if_table(SimulatedRun const& base, SimulatedRun const& run) {
  TextTable table{{{"", Align::left}, {"base line"}, {"this run"}, {"difference"}, {"%"}}};
  auto const add = [&](std::string_view name, double before, double after, int digits) {
    table.add_row({std::string{name}, decimals(before, digits), decimals(after, digits),
                   signed_decimals(after - before, digits),
                   before == 0 ? "" : signed_decimals(100 * (after / before - 1), 1)});
  };
  Simulation const& a = *base.simulation;
  Simulation const& b = *run.simulation;
  constexpr double gibibyte = 1024.0 * 1024.0 * 1024.0;
  add("iteration s", to_seconds(a.iteration), to_seconds(b.iteration), 3);
  add("tokens/s", a.tokens_per_second, b.tokens_per_second, 0);
  add("tokens/s per GPU", tokens_per_gpu(base), tokens_per_gpu(run), 1);
  constexpr double thousand = 1000;
  add("K GPU hours per 10^12 tokens", gpu_hours_of(base) / thousand, gpu_hours_of(run) / thousand,
      1);
  add("MFU %", 100 * a.mfu, 100 * b.mfu, 1);
  add("peak GiB, fullest stage", static_cast<double>(fullest_peak(a)) / gibibyte,
      static_cast<double>(fullest_peak(b)) / gibibyte, 2);
  bool const has_device = is_by_allocator(base) || is_by_allocator(run);
  add(has_device ? "free GiB, fullest device" : "free GiB beside the reserve",
      static_cast<double>(free_bytes(base)) / gibibyte,
      static_cast<double>(free_bytes(run)) / gibibyte, 2);
  table.add_rule();
  auto const before = parts_of(a.breakdown);
  auto const after = parts_of(b.breakdown);
  for (std::size_t i = 0; i < before.size(); ++i) {
    add(std::string{before[i].name} + " s", to_seconds(before[i].time), to_seconds(after[i].time),
        3);
  }
  std::string text = "against " + printable(base.name) + "\n" +
                     changes_text(changes_between(*base.config, *run.config)) + "\n" + table.text();
  for (SimulatedRun const* const one : {&base, &run}) {
    std::string const peak = peak_of_mfu(one->config->training);
    if (peak.empty()) continue;
    text += std::string{"MFU of "} + (one == &base ? "the base line" : "this run") + " is of the " +
            peak + "\n";
  }
  int const gpus = world_size(base.config->training.parallel);
  int const other = world_size(run.config->training.parallel);
  if (gpus != other) {
    text += "this run has " + std::to_string(other) + " GPUs, the base line " +
            std::to_string(gpus) + "\n";
  }
  return text;
}

/// The member `against` of a simulation's document: the base line's file, configuration and main
/// results, the keys that differ, and by how much the run is above it.
nlohmann::ordered_json what_if_json(SimulatedRun const& base, SimulatedRun const& run) {
  Simulation const& a = *base.simulation;
  Simulation const& b = *run.simulation;
  return {{"file", base.name},
          {"config", to_json(*base.config)},
          {"changes", to_json(changes_between(*base.config, *run.config))},
          {"iteration_seconds", to_seconds(a.iteration)},
          {"tokens_per_second", a.tokens_per_second},
          {"gpu_hours_per_trillion_tokens", gpu_hours_of(base)},
          {"mfu", a.mfu},
          {"peak_bytes", fullest_peak(a)},
          {"free_bytes", free_bytes(base)},
          {"breakdown_seconds", to_json(a.breakdown)},
          {"difference",
           {{"iteration_seconds", to_seconds(b.iteration) - to_seconds(a.iteration)},
            {"tokens_per_second", b.tokens_per_second - a.tokens_per_second},
            {"gpu_hours_per_trillion_tokens", gpu_hours_of(run) - gpu_hours_of(base)},
            {"mfu", b.mfu - a.mfu},
            {"peak_bytes", fullest_peak(b) - fullest_peak(a)}}}};
}

/// One rank of a stage stands for all of them in a simulated trace.
std::vector<StageId> stages_of_ranks(std::string const& list, int stages) {
  std::vector<StageId> result;
  for (std::string const& word : list_items(list)) {
    result.emplace_back(whole_number("--ranks", word, 0, stages - 1));
  }
  if (result.empty()) throw CommandLineError{"--ranks", "''", "numbers and commas"};
  return result;
}

/// What --trace, --detail and --ranks ask for; checked before anything is simulated.
struct TraceRequest {
  std::filesystem::path path;
  RecordOptions options;
};

std::optional<TraceRequest> read_trace_request(CommandLine const& line, RunArguments const& run) {
  TraceRequest request;
  request.options.detail = read_detail(line);
  if (line.has("ranks")) {
    request.options.stages =
        stages_of_ranks(line.value("ranks"), run.config.training.parallel.pipeline);
  }
  for (char const* const option : {"detail", "ranks"}) {
    if (line.is_given(option) && !line.has("trace")) {
      throw CommandLineError{std::string{"--"} + option, "without --trace",
                             "together with --trace"};
    }
  }
  if (!line.has("trace")) return std::nullopt;
  request.path = trace_to_write(line.value("trace"));
  require_writable(request.path);
  request.options.command_line = "stagecraft simulate " + line.text();
  request.options.config = to_yaml(run.config);
  return request;
}

/// The simulation of a run, with what its devices hold.
Simulation simulation_of(RunConfig const& config) {
  TrainingPlan const plan = make_plan(as_settled(config.training));
  Simulation simulation = simulate(plan, config.system);
  add_reservations(simulation, plan, config.system, core_count());
  return simulation;
}

/// The base line of a what-if.
struct BaseLine {
  explicit BaseLine(std::string const& file)
      : config{ready_run(load_run_config(file_on_command_line(file, run_folders()), {}))},
        name{file},
        simulation{simulation_of(config)} {}

  SimulatedRun run() const { return {name, &config, &simulation}; }

  RunConfig config;
  std::string name;
  Simulation simulation;
};

int run_simulate(CommandLine const& line) {
  if (line.has("keys")) return print_keys(line, run_keys_schema, run_keys());
  RunArguments const run = read_run_arguments(line);
  if (run.is_over) return 0;
  std::optional<TraceRequest> const trace = read_trace_request(line, run);
  std::vector<std::string> const names{run.config.system.name};
  SystemRates const all_rates = read_system_rates(line);
  require_rates(all_rates, {names});
  OperatingRates const rates = all_rates.of(names);
  std::unique_ptr<BaseLine const> base;
  if (line.has("against")) base = std::make_unique<BaseLine const>(line.value("against"));
  TrainingPlan const plan = make_plan(as_settled(run.config.training));
  std::optional<PlayedIteration> played;
  if (trace) played.emplace(plan, run.config.system);
  Simulation simulation = played ? played->simulation : simulate(plan, run.config.system);
  add_reservations(simulation, plan, run.config.system, core_count());
  OperatingFigures const figures =
      operating_figures(to_seconds(simulation.iteration), simulation.tokens_per_second,
                        world_size(run.config.training.parallel), rates);
  std::string const operation = operating_text(figures, rates);
  SimulatedRun const this_run{run.path, &run.config, &simulation};
  if (line.has("json")) {
    nlohmann::ordered_json json = simulation_document(simulation, plan, run.config);
    if (!operation.empty()) json["operation"] = to_json(figures, rates);
    if (base) json["against"] = what_if_json(base->run(), this_run);
    std::cout << json.dump(1) << '\n';
  } else {
    std::cout << simulation_tables(simulation, plan, run.config.system) << operation;
    if (base) std::cout << '\n' << what_if_table(base->run(), this_run);
    if (verdict_of(simulation) == Verdict::does_not_fit) {
      std::cerr << "note: `stagecraft explain` with the same file and --set says what fills the "
                   "memory and which changes make the run fit\n";
    }
  }
  if (trace) record_to_file(trace->path, *played, trace->options);
  if (!line.has("require-fit")) return 0;
  std::string const excess = memory_excess(simulation, run.config);
  if (excess.empty()) return 0;
  std::cerr << "stagecraft simulate: " << excess << '\n';
  return exit_does_not_fit;
}

}  // namespace

Command simulate_command() {
  return {
      .name = "simulate",
      .summary = "memory per stage and iteration time of a run file",
      .introduction = R"(usage: stagecraft simulate CONFIG [options]
       stagecraft simulate --keys

Predicts, for every pipeline stage, what it holds in memory at its peak, and how long an
iteration takes and what the time goes to. With --keys, explains every key of a run file.
)",
      .examples = R"(  stagecraft simulate configs/paper/175b-present.yaml
  stagecraft simulate configs/paper/175b-present.yaml --set recompute=full --set batch.micro=2
  stagecraft simulate configs/paper/22b-full.yaml --json --require-fit
  stagecraft simulate configs/paper/175b-present.yaml --set recompute=full \
    --against configs/paper/175b-present.yaml
  stagecraft simulate configs/paper/175b-present.yaml --price 2.5/gpu-hour --power 400W \
    --pue 1.2 --tokens 300B --gpu-hours-per-failure 40k
  stagecraft simulate configs/paper/1t-full.yaml --trace 1t.h5 --detail op --ranks 0,1,32,63
  stagecraft simulate --keys
)",
      .options = joined_options(
          {{{.name = "keys",
             .description = "explain every key of a run file, with its default, without a file"},
            {.name = "require-fit", .description = "exit with 3 if a stage does not fit in memory"},
            {.name = "against",
             .value = Value::file("BASE.yaml"),
             .description = "a run file to show beside this run, with the differences; --set does "
                            "not change it"},
            {.name = "trace",
             .value = Value::file("F.h5"),
             .description = "also write a trace of the iteration"},
            {.name = "detail",
             .value = Value::word({"chunk", "op"}),
             .fallback = "chunk",
             .description =
                 "of the trace: chunk (one row per forward or backward) or op (one per kernel)"},
            {.name = "ranks",
             .value = Value::text("R,R,..."),
             .description = "write only these pipeline stages to the trace"}},
           operating_options(),
           run_options()}),
      .argument = run_file(),
      .run = run_simulate};
}

}  // namespace stagecraft
