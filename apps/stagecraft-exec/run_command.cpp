#include "apps/stagecraft-exec/run_command.hpp"

#include <iomanip>
#include <iostream>
#include <memory>
#include <optional>
#include <sstream>

#include "apps/stagecraft-exec/communication_prices.hpp"
#include "apps/stagecraft-exec/execution_output.hpp"
#include "apps/stagecraft-exec/mpi_ranks.hpp"
#include "apps/stagecraft/command_line.hpp"
#include "apps/stagecraft/run_options.hpp"
#include "apps/stagecraft/trace_options.hpp"
#include "libexec/backends/cpu_backend.hpp"
#include "libexec/checkpoint/checkpoint.hpp"
#include "libexec/executor/job.hpp"
#include "libexec/executor/mpi_job.hpp"
#include "libexec/executor/solo_job.hpp"
#include "libsim/trace/output_file.hpp"
#include "libsim/trace/program_version.hpp"
#include "libsim/trace/trace_names.hpp"
#include "libsim/trace/trace_writer.hpp"
#include "libsim/units/quantity.hpp"

namespace stagecraft {

namespace po = boost::program_options;

namespace {

constexpr int most_steps = 1'000'000'000;
constexpr int most_threads = 1024;

constexpr char const* introduction =
    "usage: stagecraft-exec run CONFIG [options]\n\n"
    "Runs the plan of a run file for real: tensors, collectives, gradients, optimizer. The ranks\n"
    "of the job are threads of this process, or processes that mpirun starts; memory is counted "
    "at\n"
    "each allocation.\n\n";

constexpr char const* examples =
    "\nexamples:\n"
    "  stagecraft-exec run configs/paper/22b-present-twin.yaml --steps 3\n"
    "  stagecraft-exec run configs/paper/22b-present-twin.yaml --clock virtual --trace run.h5\n"
    "  stagecraft-exec run tiny.yaml --data README.md --steps 50\n"
    "  mpirun -n 8 stagecraft-exec run eight.yaml --ranks mpi\n";

po::options_description describe_options() {
  po::options_description options{"options"};
  auto add = options.add_options();
  auto const text = [](char const* value_name) {
    return po::value<std::string>()->value_name(value_name);
  };
  add("backend", text("auto|cpu")->default_value("auto"), "auto or cpu");
  add("ranks", text("threads|mpi|solo")->default_value("threads"),
      "threads: all ranks in this process; mpi: each a process that mpirun or srun starts; solo: "
      "one rank without the others, communication costs what the system file says");
  add("rank", text("R")->default_value("0"), "with --ranks solo: which of the job");
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
  add("blas-threads", text("N")->default_value("1"), "threads of each rank's kernels");
  add("gemm", text("openblas|plain")->default_value("openblas"),
      "openblas, or plain: slow, but sums in one order whatever the shape");
  add_run_options(options);
  return options;
}

/// What --steps and the others ask for; checked before anything runs.
struct Request {
  ExecutionOptions execution;
  CpuKernelOptions cpu;
  std::string clock;
  std::string ranks;
  int rank = 0;  ///< of ranks solo
  std::optional<std::string> data;
  std::optional<std::string> trace;
};

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

Request read_request(po::variables_map const& values, TrainingConfig const& config) {
  Request request;
  auto const word_of = [&](char const* option, std::vector<std::string> const& accepted) {
    return one_of(std::string{"--"} + option, values[option].as<std::string>(), accepted);
  };
  word_of("backend", {"auto", "cpu"});
  request.ranks = word_of("ranks", {"threads", "mpi", "solo"});
  request.clock = word_of("clock", {"wall", "virtual"});
  if (request.ranks == "solo") {
    refuse_with_solo(values);
    request.clock = name_of(TraceClock::solo);
    int const ranks = world_size(config.parallel);
    request.rank = whole_number("--rank", values["rank"].as<std::string>(), 0, ranks - 1);
  } else if (!values["rank"].defaulted()) {
    throw CommandLineError{"--rank: found without --ranks solo; accepted: with it"};
  }
  request.execution.is_virtual = request.clock == "virtual";
  if (request.execution.is_virtual && request.ranks == "mpi") {
    throw CommandLineError{
        "--clock: found 'virtual'; accepted with --ranks mpi: wall (ranks that take turns on one "
        "machine are threads)"};
  }
  request.execution.steps =
      whole_number("--steps", values["steps"].as<std::string>(), 1, most_steps);
  request.cpu.threads =
      whole_number("--blas-threads", values["blas-threads"].as<std::string>(), 1, most_threads);
  request.execution.kernel_threads = request.cpu.threads;
  request.cpu.gemm =
      word_of("gemm", {"openblas", "plain"}) == "plain" ? GemmKind::plain : GemmKind::openblas;
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
  if (auto const folder = given("save")) save_with(request.execution, *folder, given("save-every"));
  if (auto const folder = given("resume")) {
    request.execution.before_first = [path = *folder](RankContext const& context,
                                                      RankExecutor& executor) {
      load_checkpoint(path, context, executor);
    };
  }
  request.data = given("data");
  request.trace = given("trace");
  request.execution.traces = request.trace.has_value();
  request.execution.detail = read_detail(values["detail"].as<std::string>());
  if (!request.trace && !values["detail"].defaulted()) {
    throw CommandLineError{"--detail: found without --trace; accepted: with it"};
  }
  return request;
}

/// The time of a rank alone, whose loss means nothing.
void print_solo_step(StepReport const& step, int rank) {
  std::ostringstream line;
  line << "step " << step.step << "  rank " << rank << " alone  " << std::fixed
       << std::setprecision(3) << step.seconds << " s\n";
  std::cerr << line.str();
}

void print_step(StepReport const& step, double tokens) {
  std::ostringstream line;
  line << "step " << step.step << "  loss " << std::fixed << std::setprecision(4) << step.loss
       << "  gradient norm " << step.gradient_norm << "  " << std::setprecision(3) << step.seconds
       << " s  " << std::setprecision(0) << tokens / step.seconds << " tokens/s"
       << (step.was_skipped ? "  skipped: a gradient was infinite" : "") << '\n';
  std::cerr << line.str();
}

TraceMeta meta_of(TrainingPlan const& plan,
                  RunConfig const& config,
                  Request const& request,
                  std::vector<std::string> const& arguments) {
  std::string command_line = "stagecraft-exec run";
  for (std::string const& word : arguments) command_line += ' ' + word;
  return {.program_version = std::string{program_version()},
          .command_line = command_line,
          .config = to_yaml(config),
          .plan = fingerprint(plan),
          .device = cpu_description(),
          .clock = request.ranks == "solo"        ? TraceClock::solo
                   : request.execution.is_virtual ? TraceClock::virtual_time
                                                  : TraceClock::wall};
}

Execution execute(TrainingPlan const& plan,
                  ExecutionParts const& parts,
                  Request const& request,
                  MpiSession* session) {
  if (session != nullptr) return execute_on_mpi(plan, parts, request.execution, *session);
  if (request.ranks == "solo") return execute_solo(plan, request.rank, parts, request.execution);
  return execute_on_threads(plan, parts, request.execution);
}

/// On rank 0, or where all ranks are here: writes everything. Elsewhere nothing. `session`: where
/// ranks are processes.
int run_plan(std::vector<std::string> const& arguments, MpiSession* session) {
  RunArguments const run =
      read_run_arguments(arguments, describe_options(), introduction, examples);
  if (run.is_over) return 0;
  TrainingConfig const& config = run.config.training;
  Request request = read_request(run.values, config);
  if (request.ranks == "mpi") require_processes(session, config);
  bool const is_first = session == nullptr || session->rank() == 0;
  TrainingPlan const plan = make_plan(config);
  std::unique_ptr<TokenSource> const tokens =
      request.data ? file_tokens(*request.data, config.model.vocabulary, config.model.sequence)
                   : synthetic_tokens(config.model.vocabulary,
                                      static_cast<std::uint32_t>(config.training.seed));
  CostModel const cost{run.config.system, config};
  SystemPrices const prices{plan, cost};
  ExecutionParts const parts{
      .make_backend = [&](RankShare const& share) { return make_cpu_backend(share, request.cpu); },
      .tokens = tokens.get(),
      .prices = &prices};
  auto const tokens_a_step = static_cast<double>(config.batch.global * config.model.sequence);
  request.execution.on_step = [&](StepReport const& step) {
    request.ranks == "solo" ? print_solo_step(step, request.rank) : print_step(step, tokens_a_step);
  };
  if (request.trace && is_first) require_writable(*request.trace);
  Execution const execution = execute(plan, parts, request, session);
  if (!is_first) return 0;
  if (run.values.count("json") > 0) {
    std::cout << to_json(execution, plan, request.clock).dump(1) << '\n';
  } else {
    std::cout << execution_tables(execution);
  }
  if (request.trace) {
    write_trace(*request.trace, {.meta = meta_of(plan, run.config, request, arguments),
                                 .names = TraceVocabulary{plan}.names(),
                                 .ranks = execution.traces});
  }
  return 0;
}

}  // namespace

int run_command(std::vector<std::string> const& arguments) {
  if (asks_for_mpi(arguments))
    return on_mpi_ranks([&](MpiSession& session) { return run_plan(arguments, &session); });
  try {
    return run_plan(arguments, nullptr);
  } catch (MemoryLimitError const&) {
    LastWords const words = last_words(std::current_exception());
    std::cerr << words.reason;
    return words.exit_code;
  }
}

}  // namespace stagecraft
