#include "apps/stagecraft-exec/run_request.hpp"

#include <cmath>
#include <iostream>
#include <string>

#include "apps/program/output_paths.hpp"
#include "apps/program/shared_options.hpp"
#include "libexec/checkpoint/checkpoint.hpp"
#include "libsim/units/quantity.hpp"

namespace stagecraft {
namespace {

constexpr int most_steps = 1'000'000'000;

/// Saves a checkpoint after the last iteration, and after every `every` iterations if that is not
/// 0; but not after one whose loss is not finite, which may have ruined the parameters.
void save_with(ExecutionOptions& execution, std::string const& folder, int every, int keep) {
  auto const save_if = [folder, keep](bool is_due, RankContext const& context,
                                      RankExecutor& executor, StepReport const& report) {
    if (is_due && is_fit_to_save(report)) save_checkpoint(folder, keep, context, executor);
  };
  auto const is_due = [every](RankContext const& context) {
    return every > 0 && context.state.step % every == 0;
  };
  execution.after_each = [=](RankContext const& context, RankExecutor& executor,
                             StepReport const& report) {
    save_if(is_due(context), context, executor, report);
  };
  execution.after_last = [=](RankContext const& context, RankExecutor& executor,
                             StepReport const& report) {
    save_if(!is_due(context), context, executor, report);
  };
}

/// Refuses options that a rank alone does not have: it has one clock, and nothing to save.
void refuse_with_solo(CommandLine const& line) {
  for (char const* const option : {"clock", "save", "save-every", "keep", "resume"}) {
    if (!line.is_given(option)) continue;
    throw CommandLineError{std::string{"--"} + option, "'" + line.value(option) + "'", "nothing",
                           "with --ranks solo"};
  }
}

/// The GPU of a process: --device, or its local rank.
DeviceChoice device_of_run(CommandLine const& line,
                           std::string const& ranks,
                           TrainingConfig const& config,
                           RankProcesses const* processes) {
  if (ranks == "mpi") return choose_device(line, "with --ranks mpi");
  std::string const cpu_only = cpu_only_because_of(config);
  if (ranks != "nccl" || processes == nullptr) return choose_device(line, cpu_only);
  if (!line.is_given("device") && !processes->local_rank) {
    throw CommandLineError{"--ranks nccl", "no local rank of this process",
                           "--local-rank or --device"};
  }
  DeviceChoice choice = choose_device(line, cpu_only, processes->local_rank);
  if (choice.kind == DeviceKind::cuda) return choice;
  throw CommandLineError{"--backend", "'cpu'", "auto, cuda", "with --ranks nccl"};
}

/// Refuses options of one kind of ranks with another kind.
void require_no_process_options(CommandLine const& line, std::string const& ranks) {
  for (char const* const option : {"rank", "world-size", "local-rank", "master", "rendezvous"}) {
    bool const is_of_solo = std::string{option} == "rank";
    if (!line.has(option) || ranks == "nccl" || (is_of_solo && ranks == "solo")) continue;
    std::string const needed = std::string{"--ranks "} + (is_of_solo ? "solo or nccl" : "nccl");
    throw CommandLineError{std::string{"--"} + option, "without " + needed,
                           "together with " + needed};
  }
}

}  // namespace

bool is_fit_to_save(StepReport const& report) { return std::isfinite(report.loss); }

std::vector<Option> execution_options() {
  return joined_options(
      {device_options(),
       {{.name = "ranks",
         .value = Value::word({"threads", "mpi", "nccl", "solo"}),
         .fallback = "threads",
         .description =
             "threads: all ranks in this process; mpi: one process per rank, started by mpirun or "
             "srun; nccl: one process with a GPU per rank, started by torchrun, mpirun or srun; "
             "solo: one rank alone, communication takes the system file's times"}},
       process_options(),
       {{.name = "clock",
         .value = Value::word({"wall", "virtual"}),
         .fallback = "wall",
         .description = "wall, or virtual: ranks take turns on the machine, communication takes "
                        "the system file's times"},
        {.name = "steps",
         .value = Value::text("N"),
         .fallback = "1",
         .description = "iterations; after --resume, so many more"},
        {.name = "data",
         .value = Value::file("FILE"),
         .description = "train on the bytes of a file instead of random tokens"},
        {.name = "save",
         .value = Value::folder(),
         .description =
             "save a checkpoint in this folder after the last iteration, and when SIGINT "
             "or SIGTERM ends the run"},
        {.name = "save-every",
         .value = Value::text("N"),
         .description = "with --save: also after every N-th iteration"},
        {.name = "keep",
         .value = Value::text("N"),
         .fallback = "1",
         .description = "with --save: how many checkpoints to keep; older ones are removed"},
        {.name = "resume",
         .value = Value::folder(),
         .description = "continue from the newest checkpoint in this folder, of any layout"},
        {.name = "trace",
         .value = Value::file("F.h5"),
         .description = "also write a trace of the last iteration"},
        {.name = "detail",
         .value = Value::word({"chunk", "op"}),
         .fallback = "op",
         .description =
             "of the trace: op (one row per kernel) or chunk (one per forward or backward)"},
        {.name = "memory-limit",
         .value = Value::text("SIZE"),
         .description = "the limit of a rank's allocations, e.g. 2 GiB"},
        {.name = "allocator",
         .value = Value::word({"pytorch", "cuda_async", "arena"}),
         .description = "also send each request through a model of this allocator (with "
                        "memory.allocator_settings): its reserved bytes in output and trace"},
        {.name = "check-lifetimes",
         .description = "report buffers that are released later than the last op that uses them"}},
       run_options()});
}

RunRequest read_run_request(CommandLine const& line,
                            TrainingConfig const& config,
                            RankProcesses const* processes) {
  RunRequest request;
  request.ranks = line.value("ranks");
  require_no_process_options(line, request.ranks);
  bool const are_processes = request.ranks == "mpi" || request.ranks == "nccl";
  if (are_processes) require_processes(request.ranks, processes, config);
  request.device = device_of_run(line, request.ranks, config, processes);
  request.clock = line.value("clock");
  if (request.ranks == "solo") {
    refuse_with_solo(line);
    request.clock = name_of(TraceClock::solo);
    int const ranks = world_size(config.parallel);
    if (line.has("rank")) {
      request.rank = RankId{line.whole_number("rank", 0, ranks - 1)};
    }
  }
  request.execution.is_virtual = request.clock == "virtual";
  if (request.execution.is_virtual && are_processes) {
    throw CommandLineError{"--clock", "'virtual'",
                           "wall (ranks that take turns on one machine are threads)",
                           "with --ranks " + request.ranks};
  }
  request.execution.steps = line.whole_number("steps", 1, most_steps);
  request.execution.kernel_threads = request.device.cpu.threads;
  if (auto const limit = line.find("memory-limit")) {
    request.execution.memory_limit = parse_quantity<Bytes>(*limit);
    if (!request.execution.memory_limit) {
      throw CommandLineError{"--memory-limit", "'" + *limit + "'",
                             std::string{accepted_quantity<Bytes>()}};
    }
  }
  request.execution.models_allocator = line.has("allocator");
  request.execution.checks_lifetimes = line.has("check-lifetimes");
  if (request.execution.checks_lifetimes && are_processes) {
    throw CommandLineError{"--check-lifetimes", "with --ranks " + request.ranks,
                           "with threads or solo"};
  }
  request.save = line.find("save");
  for (char const* const option : {"save-every", "keep"}) {
    if (line.is_given(option) && !request.save) {
      throw CommandLineError{std::string{"--"} + option, "without --save", "together with --save"};
    }
  }
  if (request.save) {
    int const every = line.has("save-every") ? line.whole_number("save-every", 1, most_steps) : 0;
    save_with(request.execution, *request.save, every, line.whole_number("keep", 1, most_steps));
  }
  if (auto const folder = line.find("resume")) {
    request.execution.before_first = [path = *folder](RankContext const& context,
                                                      RankExecutor& executor) {
      bool const has_checksums = load_checkpoint(path, context, executor);
      if (has_checksums || context.rank != RankId{0}) return;
      std::cerr << "warning: " << path
                << " was saved by an earlier version: it has no checksums, so that damage is not "
                   "noticed, and its model is not compared\n";
    };
  }
  request.data = line.find("data");
  request.trace = line.find("trace");
  if (request.trace) trace_to_write(*request.trace);
  request.execution.traces = request.trace.has_value();
  request.execution.detail = read_detail(line);
  if (!request.trace && line.is_given("detail")) {
    throw CommandLineError{"--detail", "without --trace", "together with --trace"};
  }
  return request;
}

}  // namespace stagecraft
