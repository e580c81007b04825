#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "apps/program/command_line.hpp"
#include "apps/program/run_program.hpp"
#include "apps/program/shared_options.hpp"
#include "apps/stagecraft-exec/commands.hpp"
#include "apps/stagecraft-exec/device_choice.hpp"
#include "apps/stagecraft-exec/execution_output.hpp"
#include "apps/stagecraft-exec/process_ranks.hpp"
#include "apps/stagecraft-exec/run_request.hpp"
#include "libexec/backends/cuda_backend.hpp"
#include "libexec/checkpoint/checkpoint.hpp"
#include "libexec/executor/executable.hpp"
#include "libexec/executor/job.hpp"
#include "libexec/executor/token_source.hpp"
#include "libexec/memory/available_memory.hpp"
#include "libexec/memory/counting_allocator.hpp"
#include "libsim/host/output_file.hpp"
#include "libsim/host/program_version.hpp"
#include "libsim/memory/rank_memory.hpp"
#include "libsim/plan/fingerprint.hpp"
#include "libsim/plan/make_plan.hpp"
#include "libsim/plan/rank_programs.hpp"
#include "libsim/plan/training_plan.hpp"
#include "libsim/trace/trace_names.hpp"
#include "libsim/trace/trace_writer.hpp"
#include "libsim/training/training_names.hpp"
#include "libsim/units/quantity.hpp"

namespace stagecraft {
namespace {

Bytes peak_of_all(TrainingPlan const& plan) {
  Bytes sum;
  for (RankMemory const& alike : memory_by_rank(plan, 1)) {
    for (StageMemory const& stage : alike.stages) {
      sum = sum + std::int64_t{alike.ranks} * Bytes{stage.at_peak.sum()};
    }
  }
  return sum;
}

Bytes peak_of_rank(TrainingPlan const& plan, RankId rank) {
  RankPrograms const own{plan, plan.groups.at_stage(rank, StageId{0}).value()};
  StagePlan const& stage = plan.stages[plan.groups.stage_of(rank)];
  return Bytes{peak_memory({plan, stage, *own}).at_peak.sum()};
}

/// Refuses, before anything is allocated, a plan whose ranks in this process hold more at their
/// peaks, without workspace, than the machine or the GPU has available: Linux would end the process
/// without a message. `rank`: the only rank in this process; nullopt if all ranks are.
/// \throws MemoryLimitError
void require_memory(TrainingPlan const& plan,
                    DeviceChoice const& device,
                    std::optional<RankId> rank) {
  bool const is_on_gpu = device.kind == DeviceKind::cuda;
  std::optional<Bytes> const there =
      is_on_gpu ? free_cuda_memory(device.ordinal) : available_memory();
  if (!there) return;
  Bytes const needed = rank ? peak_of_rank(plan, *rank) : peak_of_all(plan);
  if (needed <= *there) return;
  std::string const who = rank ? "rank " + std::to_string(rank->value()) + " needs "
                               : "the " + std::to_string(plan.groups.ranks()) + " ranks need ";
  std::string const alone = rank ? "" : "one rank alone (--ranks solo), or ";
  throw MemoryLimitError{
      who + readable_text(needed) + (rank ? " at its peak, and " : " at their peaks, and ") +
      (is_on_gpu ? "the GPU has " : "this machine has ") + readable_text(*there) +
      (is_on_gpu ? " free" : " available") + "; run " + alone +
      "a smaller model of the same layout, as configs/paper/*-twin.yaml\n"};
}

/// While it lives, the first SIGINT or SIGTERM does not end the process but is noted, and says on
/// standard error that the run ends after its iteration; a second one ends the process at once.
/// There may be one at a time.
class EndSignals {
 public:
  EndSignals();
  ~EndSignals();
  EndSignals(EndSignals const&) = delete;
  EndSignals(EndSignals&&) = delete;
  EndSignals& operator=(EndSignals const&) = delete;
  EndSignals& operator=(EndSignals&&) = delete;

  /// The signal that came; 0 if none did.
  std::atomic<int> const& noted() const;
};

std::atomic<int> noted_signal = 0;

static_assert(std::atomic<int>::is_always_lock_free, "signal handlers may take no locks");

extern "C" void note_end(int signal) {
  noted_signal = signal;
  constexpr std::string_view text =
      "stagecraft-exec: will save and end after this iteration; another signal ends at once\n";
  [[maybe_unused]] ssize_t const written = ::write(STDERR_FILENO, text.data(), text.size());
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGTERM, SIG_DFL);
}

EndSignals::EndSignals() {
  noted_signal = 0;
  std::signal(SIGINT, note_end);
  std::signal(SIGTERM, note_end);
}

EndSignals::~EndSignals() {
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGTERM, SIG_DFL);
}

std::atomic<int> const& EndSignals::noted() const { return noted_signal; }

/// Prints the time of a rank that runs alone, whose loss is meaningless.
void print_solo_step(StepReport const& step, RankId rank) {
  std::cerr << fmt::format("step {}  rank {} alone  {:.3f} s\n", step.step, rank.value(),
                           step.seconds);
}

void print_step(StepReport const& step, double tokens) {
  std::cerr << fmt::format(
      "step {}  loss {:.4f}{}  gradient norm {:.4f}  {:.3f} s  {:.0f} tokens/s{}\n", step.step,
      step.loss,
      step.next_token_loss ? fmt::format(" (next tokens {:.4f})", *step.next_token_loss) : "",
      step.gradient_norm, step.seconds, tokens / step.seconds,
      step.was_skipped ? "  skipped: a gradient was infinite" : "");
}

TraceMeta meta_of(TrainingPlan const& plan,
                  RunConfig const& config,
                  RunRequest const& request,
                  CommandLine const& line) {
  return {.program_version = std::string{program_version()},
          .command_line = "stagecraft-exec run " + line.text(),
          .config = to_yaml(config),
          .plan = fingerprint(plan),
          .device = request.device.name,
          .clock = request.ranks == "solo"        ? TraceClock::solo
                   : request.execution.is_virtual ? TraceClock::virtual_time
                                                  : TraceClock::wall};
}

Execution execute_where_asked(TrainingPlan const& plan,
                              ExecutionParts const& parts,
                              RunRequest const& request,
                              RankProcesses const* processes) {
  if (processes != nullptr) {
    return execute_on_processes(plan, parts, request.execution, processes->session,
                                processes->worlds(request.device.ordinal));
  }
  if (request.ranks == "solo") return execute_solo(plan, request.rank, parts, request.execution);
  return execute_on_threads(plan, parts, request.execution);
}

Execution execute(TrainingPlan const& plan,
                  ExecutionParts const& parts,
                  RunRequest const& request,
                  RankProcesses const* processes) {
  try {
    return execute_where_asked(plan, parts, request, processes);
  } catch (...) {
    if (request.save) discard_unfinished_checkpoint(*request.save);
    throw;
  }
}

std::unique_ptr<TokenSource> read_tokens(std::optional<std::string> const& file,
                                         TrainingConfig const& config) {
  std::int64_t const vocabulary = config.model.vocabulary;
  if (!file) {
    return synthetic_tokens(vocabulary, static_cast<std::uint32_t>(config.training.seed));
  }
  try {
    return file_tokens(*file, vocabulary, config.model.sequence);
  } catch (DataError const& error) {
    throw CommandLineError{"--data", error};
  }
}

/// The only rank in this process; nullopt if all ranks are.
std::optional<RankId> rank_here(RunRequest const& request, RankProcesses const* processes) {
  if (processes != nullptr) return processes->session.rank();
  if (request.ranks == "solo") return request.rank;
  return std::nullopt;
}

/// The exit code of a run that a signal has ended, as shells count it. 0: another rank's signal.
int code_of_signal(int signal) { return 128 + (signal == 0 ? SIGTERM : signal); }

/// Runs the plan, and on rank 0 writes all output. `processes`: null if ranks are not processes.
int run_plan(CommandLine const& line, RankProcesses const* processes) {
  RunArguments run = read_run_arguments(line);
  if (run.is_over) return 0;
  if (auto const allocator = line.find("allocator")) {
    run.config.training.memory.allocator = value_named<AllocatorKind>(*allocator).value();
  }
  TrainingConfig const& config = run.config.training;
  require_executable(config);
  RunRequest request = read_run_request(line, config, processes);
  bool const is_first = processes == nullptr || processes->session.rank() == RankId{0};
  TrainingPlan const plan = make_plan(as_settled(config));
  std::unique_ptr<TokenSource> const tokens = read_tokens(request.data, config);
  CostModel const cost{run.config.system, plan};
  SystemCosts const costs{cost};
  ExecutionParts parts = request.device.parts();
  parts.tokens = tokens.get();
  parts.costs = &costs;
  auto const tokens_per_step = static_cast<double>(config.batch.global * config.model.sequence);
  request.execution.on_step = [&](StepReport const& step) {
    request.ranks == "solo" ? print_solo_step(step, request.rank)
                            : print_step(step, tokens_per_step);
  };
  if (request.trace && is_first) require_writable(*request.trace);
  if (request.save && is_first) require_checkpoint_folder(*request.save);
  require_memory(plan, request.device, rank_here(request, processes));
  // A signal ends all processes of MPI at once: it does not say whether a user or a failure sent
  // it.
  std::optional<EndSignals> signals;
  if (request.save && request.ranks != "mpi") {
    request.execution.ends = &signals.emplace().noted();
  }
  Execution const execution = execute(plan, parts, request, processes);
  bool const has_ended_early = static_cast<int>(execution.steps.size()) < request.execution.steps;
  bool const is_unsaved = request.save && !is_fit_to_save(execution.steps.back());
  int const exit_code = is_unsaved ? 1 : has_ended_early ? code_of_signal(signals->noted()) : 0;
  if (!is_first) return exit_code;
  if (line.has("json")) {
    std::cout << to_json(execution, plan, request.device.backend(), request.clock).dump(1) << '\n';
  } else {
    std::cout << execution_tables(execution);
    if (request.execution.checks_lifetimes) std::cout << lifetime_text(execution);
  }
  if (is_unsaved) {
    std::cerr << "stagecraft-exec run: the loss of step " << execution.steps.back().step
              << " is not finite: nothing was saved after it, and " << *request.save
              << " is as it was before\n";
  } else if (has_ended_early) {
    std::cerr << "stagecraft-exec run: ended by a signal after step " << execution.steps.back().step
              << " (" << execution.steps.size() << " of " << request.execution.steps
              << "); saved in " << *request.save << ": the same command with --resume "
              << *request.save << " continues" << (request.trace ? "; no trace was written" : "")
              << '\n';
  }
  if (request.trace && !has_ended_early) {
    write_trace(*request.trace, {.meta = meta_of(plan, run.config, request, line),
                                 .names = TraceVocabulary{plan}.names(),
                                 .ranks = execution.traces});
  }
  return exit_code;
}

int run_here(CommandLine const& line) {
  try {
    return run_plan(line, nullptr);
  } catch (MemoryLimitError const&) {
    ErrorReport const report = error_report(std::current_exception());
    std::cerr << report.reason;
    return report.exit_code;
  }
}

int start_run(Command const& command, std::vector<std::string> const& words) {
  auto const kind = asks_for_processes(words);
  if (!kind) {
    if (auto const code = refuse_silent_copies(words)) return *code;
    return read_and_run(command, words);
  }
  return on_process_ranks(*kind, words, [&](RankProcesses const& processes) {
    return run_plan(CommandLine{command, words}, &processes);
  });
}

}  // namespace

Command run_command() {
  return {.name = "run",
          .summary = "execute the plan of a run file with real tensors",
          .introduction = R"(usage: stagecraft-exec run CONFIG [options]

Runs the plan of a run file for real: tensors, collectives, gradients, optimizer. The ranks
of the job are threads of this process, or processes that mpirun starts; memory is counted at
each allocation.
)",
          .examples = R"(  stagecraft-exec run configs/paper/22b-present-twin.yaml --steps 3
  stagecraft-exec run configs/paper/22b-present-twin.yaml --clock virtual --trace run.h5
  stagecraft-exec run configs/examples/eight.yaml --data README.md --steps 50
  mpirun -n 8 stagecraft-exec run configs/examples/eight.yaml --ranks mpi
  torchrun --no-python --nproc-per-node 8 \
    stagecraft-exec run configs/examples/eight.yaml --ranks nccl
)",
          .options = execution_options(),
          .argument = run_file(),
          .run = run_here,
          .start = start_run};
}

}  // namespace stagecraft
