#include "apps/stagecraft/simulate_command.hpp"

#include <filesystem>
#include <iostream>
#include <optional>
#include <sstream>

#include "apps/stagecraft/command_line.hpp"
#include "apps/stagecraft/run_options.hpp"
#include "apps/stagecraft/trace_options.hpp"
#include "libsim/engine/record.hpp"
#include "libsim/engine/simulation.hpp"
#include "libsim/report/simulation_json.hpp"
#include "libsim/report/simulation_tables.hpp"
#include "libsim/units/quantity.hpp"

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
    "  stagecraft simulate configs/paper/175b-present.yaml --set recompute=full --set "
    "batch.micro=2\n"
    "  stagecraft simulate configs/paper/22b-full.yaml --json --require-fit\n"
    "  stagecraft simulate configs/paper/1t-full.yaml --trace 1t.h5 --detail op --ranks "
    "0,1,32,63\n";

po::options_description describe_options() {
  po::options_description options{"options"};
  auto add = options.add_options();
  add("require-fit", "exit with 3 if a stage does not fit into its memory");
  add("trace", po::value<std::string>()->value_name("F.h5"), "also write a trace of the iteration");
  add("detail", po::value<std::string>()->value_name("chunk|op")->default_value("chunk"),
      "of the trace: chunk (a row a forward or backward) or op (a row a kernel)");
  add("ranks", po::value<std::string>()->value_name("R,R,..."),
      "of the trace: only these pipeline ranks");
  add_run_options(options);
  return options;
}

std::vector<std::int32_t> read_ranks(std::string const& list, int stages) {
  std::vector<std::int32_t> ranks;
  std::istringstream words{list};
  for (std::string word; std::getline(words, word, ',');) {
    ranks.push_back(whole_number("--ranks", word, 0, stages - 1));
  }
  if (ranks.empty()) throw CommandLineError{"--ranks: found ''; accepted: numbers and commas"};
  return ranks;
}

/// What --trace, --detail and --ranks ask for; checked before anything is simulated.
struct TraceRequest {
  std::filesystem::path path;
  RecordOptions options;
};

std::optional<TraceRequest> read_trace_request(RunArguments const& run,
                                               std::vector<std::string> const& arguments) {
  TraceRequest request;
  request.options.detail = read_detail(run.values["detail"].as<std::string>());
  if (run.values.count("ranks") > 0) {
    request.options.ranks =
        read_ranks(run.values["ranks"].as<std::string>(), run.config.training.parallel.pipeline);
  }
  for (char const* const option : {"detail", "ranks"}) {
    bool const is_given = run.values.count(option) > 0 && !run.values[option].defaulted();
    if (is_given && run.values.count("trace") == 0) {
      throw CommandLineError{std::string{"--"} + option +
                             ": found without --trace; accepted: with it"};
    }
  }
  if (run.values.count("trace") == 0) return std::nullopt;
  request.path = trace_to_write(run.values["trace"].as<std::string>());
  request.options.command_line = "stagecraft simulate";
  for (std::string const& word : arguments) request.options.command_line += ' ' + word;
  request.options.config = to_yaml(run.config);
  return request;
}

nlohmann::ordered_json document(Simulation const& simulation,
                                TrainingPlan const& plan,
                                RunConfig const& config) {
  nlohmann::ordered_json json = to_json(simulation, plan);
  json["config"] = to_json(config);
  json["warnings"] = config.warnings;
  return json;
}

/// Which stages do not fit, and by how much the fullest; empty where all do.
std::string excess_text(Simulation const& simulation, RunConfig const& config) {
  std::string stages;
  StageResult const* fullest = nullptr;
  int count = 0;
  for (StageResult const& stage : simulation.stages) {
    if (stage.fits) continue;
    stages += (stages.empty() ? "" : ", ") + std::to_string(stage.stage);
    if (fullest == nullptr || stage.peak() > fullest->peak()) fullest = &stage;
    ++count;
  }
  if (fullest == nullptr) return {};
  Bytes const reserve = config.training.memory.reserve;
  Bytes const capacity = config.system.accelerator.memory.value;
  Bytes const excess{fullest->peak() + reserve.count() - capacity.count()};
  return (count == 1 ? "stage " + stages + " does not fit" : "stages " + stages + " do not fit") +
         (count == 1 ? ": it holds " : ": stage " + std::to_string(fullest->stage) + " holds ") +
         readable_text(Bytes{fullest->peak()}) + ", " + readable_text(excess) + " more than the " +
         readable_text(capacity) + " less " + readable_text(reserve) + " of reserve";
}

}  // namespace

int simulate_command(std::vector<std::string> const& arguments) {
  RunArguments const run =
      read_run_arguments(arguments, describe_options(), introduction, examples);
  if (run.is_over) return 0;
  std::optional<TraceRequest> const trace = read_trace_request(run, arguments);
  TrainingPlan const plan = make_plan(run.config.training);
  Simulation const simulation = simulate(plan, run.config.system);
  if (run.values.count("json") > 0) {
    std::cout << document(simulation, plan, run.config).dump(1) << '\n';
  } else {
    std::cout << simulation_tables(simulation, plan, run.config.system);
  }
  if (trace) record_to_file(trace->path, plan, run.config.system, trace->options);
  if (run.values.count("require-fit") == 0) return 0;
  std::string const excess = excess_text(simulation, run.config);
  if (excess.empty()) return 0;
  std::cerr << "stagecraft simulate: " << excess << '\n';
  return does_not_fit;
}

}  // namespace stagecraft
