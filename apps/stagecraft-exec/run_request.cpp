#include "apps/stagecraft-exec/run_request.hpp"

#include <string>

#include "apps/stagecraft/command_line.hpp"
#include "apps/stagecraft/run_options.hpp"
#include "apps/stagecraft/trace_options.hpp"
#include "libexec/checkpoint/checkpoint.hpp"
#include "libsim/units/quantity.hpp"

namespace stagecraft {

namespace po = boost::program_options;

namespace {

constexpr int most_steps = 1'000'000'000;

/// Saves after the last iteration, and after every `interval` that is given.
void save_with(ExecutionOptions& execution,
               std::string const& folder,
               std::optional<std::string> const& interval) {
  auto const save = [folder](RankContext const& context, RankExecutor& executor) {
    save_checkpoint(folder, context, executor);
  };
  if (!interval) {
    execution.after_last = save;
    return;
  }
  int const every = whole_number("--save-every", *interval, 1, most_steps);
  execution.after_each = [save, every](RankContext const& context, RankExecutor& executor) {
    if (context.state.step % every == 0) save(context, executor);
  };
  execution.after_last = save;
}

/// A rank alone has neither a choice of clocks nor anything to save.
void refuse_with_solo(po::variables_map const& values) {
  for (char const* const option : {"clock", "save", "save-every", "resume"}) {
    if (values.count(option) == 0 || values[option].defaulted()) continue;
    throw CommandLineError{std::string{"--"} + option + ": found '" +
                           values[option].as<std::string>() +
                           "'; accepted with --ranks solo: nothing"};
  }
}

/// The GPU of a process: --device, or its local rank.
DeviceChoice device_of_run(po::variables_map const& values,
                           std::string const& ranks,
                           ModelConfig const& model,
                           RankProcesses const* processes) {
  if (ranks == "mpi") return choose_device(values, "with --ranks mpi");
  std::string const cpu_only = cpu_only_because_of(model);
  if (ranks != "nccl" || processes == nullptr) return choose_device(values, cpu_only);
  if (values["device"].defaulted() && !processes->local_rank) {
    throw CommandLineError{
        "--ranks nccl: found no local rank of this process; accepted: --local-rank or --device"};
  }
  DeviceChoice choice = choose_device(values, cpu_only, processes->local_rank);
  if (choice.kind == DeviceKind::cuda) return choice;
  throw CommandLineError{"--backend: found 'cpu'; accepted with --ranks nccl: auto, cuda"};
}

/// What is said of one kind of ranks is refused with others.
void require_no_process_options(po::variables_map const& values, std::string const& ranks) {
  for (char const* const option : {"rank", "world-size", "local-rank", "master", "rendezvous"}) {
    bool const is_of_solo = std::string{option} == "rank";
    if (values.count(option) == 0 || ranks == "nccl" || (is_of_solo && ranks == "solo")) continue;
    throw CommandLineError{std::string{"--"} + option + ": found without --ranks " +
                           (is_of_solo ? "solo or nccl" : "nccl") + "; accepted: with it"};
  }
}

}  // namespace

po::options_description describe_run_options() {
  po::options_description options{"options"};
  auto add = options.add_options();
  auto const text = [](char const* value_name) {
    return po::value<std::string>()->value_name(value_name);
  };
  add_device_options(options);
  add("ranks", text("threads|mpi|nccl|solo")->default_value("threads"),
      "threads: all ranks in this process; mpi: each a process that mpirun or srun starts; nccl: "
      "each a process with a GPU, that torchrun, mpirun or srun starts; solo: "
      "one rank without the others, communication costs what the system file says");
  add_process_options(options);
  add("clock", text("wall|virtual")->default_value("wall"),
      "wall, or virtual: ranks take turns on the machine, communication costs what the system "
      "file says");
  add("steps", text("N")->default_value("1"), "iterations");
  add("data", text("FILE"), "train on the bytes of a file instead of random tokens");
  add("save", text("DIR"), "save a checkpoint there after the last iteration");
  add("save-every", text("N"), "with --save: also after every N-th iteration");
  add("resume", text("DIR"), "go on from the newest checkpoint there, whatever layout wrote it");
  add("trace", text("F.h5"), "also write a trace of the last iteration");
  add("detail", text("op|chunk")->default_value("op"),
      "of the trace: op (a row a kernel) or chunk (a row a forward or backward)");
  add("memory-limit", text("SIZE"), "most that a rank may allocate, e.g. 2 GiB");
  add_run_options(options);
  return options;
}

RunRequest read_run_request(po::variables_map const& values,
                            TrainingConfig const& config,
                            RankProcesses const* processes) {
  RunRequest request;
  auto const word_of = [&](char const* option, std::vector<std::string> const& accepted) {
    return one_of(std::string{"--"} + option, values[option].as<std::string>(), accepted);
  };
  request.ranks = word_of("ranks", {"threads", "mpi", "nccl", "solo"});
  require_no_process_options(values, request.ranks);
  bool const are_processes = request.ranks == "mpi" || request.ranks == "nccl";
  if (are_processes) require_processes(request.ranks, processes, config);
  request.device = device_of_run(values, request.ranks, config.model, processes);
  request.clock = word_of("clock", {"wall", "virtual"});
  if (request.ranks == "solo") {
    refuse_with_solo(values);
    request.clock = name_of(TraceClock::solo);
    int const ranks = world_size(config.parallel);
    if (values.count("rank") > 0) {
      request.rank = whole_number("--rank", values["rank"].as<std::string>(), 0, ranks - 1);
    }
  }
  request.execution.is_virtual = request.clock == "virtual";
  if (request.execution.is_virtual && are_processes) {
    throw CommandLineError{"--clock: found 'virtual'; accepted with --ranks " + request.ranks +
                           ": wall (ranks that take turns on one machine are threads)"};
  }
  request.execution.steps =
      whole_number("--steps", values["steps"].as<std::string>(), 1, most_steps);
  request.execution.kernel_threads = request.device.cpu.threads;
  auto const given = [&](char const* option) -> std::optional<std::string> {
    if (values.count(option) == 0) return std::nullopt;
    return values[option].as<std::string>();
  };
  if (auto const limit = given("memory-limit")) {
    request.execution.memory_limit = parse_quantity<Bytes>(*limit);
    if (!request.execution.memory_limit) {
      throw CommandLineError{"--memory-limit: found '" + *limit +
                             "'; accepted: " + std::string{accepted_quantity<Bytes>()}};
    }
  }
  request.save = given("save");
  if (request.save) save_with(request.execution, *request.save, given("save-every"));
  if (given("save-every") && !request.save) {
    throw CommandLineError{"--save-every: found without --save; accepted: with it"};
  }
  if (auto const folder = given("resume")) {
    request.execution.before_first = [path = *folder](RankContext const& context,
                                                      RankExecutor& executor) {
      load_checkpoint(path, context, executor);
    };
  }
  request.data = given("data");
  request.trace = given("trace");
  if (request.trace) trace_to_write(*request.trace);
  request.execution.traces = request.trace.has_value();
  request.execution.detail = read_detail(values["detail"].as<std::string>());
  if (!request.trace && !values["detail"].defaulted()) {
    throw CommandLineError{"--detail: found without --trace; accepted: with it"};
  }
  return request;
}

}  // namespace stagecraft
