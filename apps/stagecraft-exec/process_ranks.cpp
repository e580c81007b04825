#include "apps/stagecraft-exec/process_ranks.hpp"

#include <algorithm>
#include <iostream>
#include <span>
#include <streambuf>

#include "apps/program/command_line.hpp"
#include "apps/program/run_program.hpp"
#include "libexec/backends/cuda_backend.hpp"
#include "libexec/comm/cuda/nccl_world.hpp"
#include "libexec/comm/mpi/mpi_world.hpp"
#include "libexec/comm/process_environment.hpp"
#include "libexec/kernels/cuda/device_error.hpp"
#include "libexec/memory/counting_allocator.hpp"

namespace stagecraft {
namespace {

/// Discards what is written to it.
class Nowhere : public std::streambuf {
 protected:
  int_type overflow(int_type character) override { return traits_type::not_eof(character); }
  std::streamsize xsputn(char const* /*text*/, std::streamsize count) override { return count; }
};

/// Discards what is written to a stream, as long as the object lives.
class Silence {
 public:
  explicit Silence(std::ostream& stream) : stream_{stream}, usual_{stream.rdbuf(&nowhere_)} {}
  ~Silence() { stream_.rdbuf(usual_); }
  Silence(Silence const&) = delete;
  Silence(Silence&&) = delete;
  Silence& operator=(Silence const&) = delete;
  Silence& operator=(Silence&&) = delete;

 private:
  Nowhere nowhere_;
  std::ostream& stream_;
  std::streambuf* usual_;
};

int run_silently(ProcessCommand const& command, RankProcesses const& processes) {
  Silence const output{std::cout};
  Silence const errors{std::cerr};
  return command(processes);
}

int run_on(RankProcesses const& processes, ProcessCommand const& command) {
  try {
    return processes.session.rank() == RankId{0} ? command(processes)
                                                 : run_silently(command, processes);
  } catch (...) {
    processes.session.fail(std::current_exception());
    throw;  // not reached; GCC does not know that the virtual function never returns
  }
}

/// The last value of an option, before the command line is read.
std::optional<std::string> value_of(std::vector<std::string> const& arguments,
                                    std::string const& option) {
  std::optional<std::string> value;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    std::string const& word = arguments[i];
    if (word.starts_with(option + "=")) value = word.substr(option.size() + 1);
    if (word == option && i + 1 < arguments.size()) value = arguments[i + 1];
  }
  return value;
}

ProcessPlace place_of_process(std::vector<std::string> const& arguments) {
  auto const value = [&](char const* option) { return value_of(arguments, option); };
  try {
    return find_process({.rank = value("--rank"),
                         .size = value("--world-size"),
                         .local_rank = value("--local-rank"),
                         .master = value("--master"),
                         .rendezvous = value("--rendezvous")},
                        from_environment);
  } catch (ProcessEnvironmentError const& error) {
    throw CommandLineError{"--ranks nccl", error};
  }
}

int on_mpi_ranks(ProcessCommand const& command) {
  MpiSession session{error_report};
  auto const worlds = [&session](int /*device*/) -> MakeProcessWorld {
    return [&session](TrainingPlan const& plan, JobClock const& clock) {
      return std::make_unique<MpiWorld>(plan, session, clock);
    };
  };
  return run_on({.kind = "mpi", .session = session, .worlds = worlds}, command);
}

void require_gpu() {
  CudaInventory const inventory = find_cuda_devices();
  if (!inventory.obstacle.empty()) throw DeviceError{"--ranks nccl: " + inventory.obstacle};
}

int on_nccl_session(JobSession& session,
                    ProcessPlace const& place,
                    NcclRendezvous const& rendezvous,
                    ProcessCommand const& command) {
  auto const worlds = [&](int device) -> MakeProcessWorld {
    return [&, device](TrainingPlan const& plan, JobClock const& /*clock*/) {
      return make_nccl_world(plan, session, {.device = device, .rendezvous = rendezvous});
    };
  };
  return run_on(
      {.kind = "nccl", .session = session, .local_rank = place.local_rank, .worlds = worlds},
      [&](RankProcesses const& processes) {
        require_gpu();
        return command(processes);
      });
}

int on_nccl_ranks(std::vector<std::string> const& arguments, ProcessCommand const& command) {
  prepare_nccl();
  ProcessPlace const place = place_of_process(arguments);
  if (place.folder == "mpi") {
    MpiSession session{error_report};
    auto const broadcast = [&](std::span<std::byte> id) { session.broadcast(id); };
    return on_nccl_session(session, place, {.broadcast = broadcast}, command);
  }
  LaunchedProcess process{place, error_report};
  NcclRendezvous rendezvous{.address = place.address};
  if (!place.folder.empty()) rendezvous.file = file_of_job(place);
  return on_nccl_session(process, place, rendezvous, command);
}

}  // namespace

std::optional<int> refuse_silent_copies(std::vector<std::string> const& arguments) {
  if (value_of(arguments, "--ranks")) return std::nullopt;
  constexpr int usage_error = 2;
  try {
    auto const launched = find_launched_rank(from_environment);
    if (!launched) return std::nullopt;
    if (launched->rank > 0) return usage_error;
    throw CommandLineError{"--ranks",
                           "nothing, in one of " + std::to_string(launched->size) +
                               " processes that " + launched->launcher + " has started",
                           "mpi or nccl for a rank in each process, or threads for the whole plan "
                           "in each"};
  } catch (ProcessEnvironmentError const&) {
    return std::nullopt;  // what nobody asks for may be anything
  }
}

std::vector<Option> process_options() {
  return {
      {.name = "rank",
       .value = Value::text("R"),
       .description = "with --ranks solo: the rank to run; with --ranks nccl: the rank of this "
                      "process, unless torchrun, mpirun or srun sets it"},
      {.name = "world-size",
       .value = Value::text("N"),
       .description = "with --ranks nccl and --rank: number of processes of the job"},
      {.name = "local-rank",
       .value = Value::text("L"),
       .description = "with --ranks nccl: number of this process on its machine; selects the GPU"},
      {.name = "master",
       .value = Value::text("HOST:PORT"),
       .description = "with --ranks nccl: the address of rank 0, as in NCCL_COMM_ID"},
      {.name = "rendezvous",
       .value = Value::folder(),
       .description = "with --ranks nccl: a folder that all machines share, to find rank 0; or "
                      "mpi, to use MPI"}};
}

std::optional<std::string> asks_for_processes(std::vector<std::string> const& arguments) {
  auto kind = value_of(arguments, "--ranks");
  auto const has = [&](char const* word) {
    return std::find(arguments.begin(), arguments.end(), word) != arguments.end();
  };
  if (has("--help") || has("-h") || (kind != "mpi" && kind != "nccl")) return std::nullopt;
  return kind;
}

int on_process_ranks(std::string const& kind,
                     std::vector<std::string> const& arguments,
                     ProcessCommand const& command) {
  return kind == "mpi" ? on_mpi_ranks(command) : on_nccl_ranks(arguments, command);
}

void require_processes(std::string const& kind,
                       RankProcesses const* processes,
                       TrainingConfig const& config) {
  if (processes == nullptr)
    throw CommandLineError{"--ranks", "an abbreviation", "the whole option: --ranks " + kind};
  ParallelLayout const& layout = config.parallel;
  int const ranks = world_size(layout);
  int const found = processes->session.size();
  if (found == ranks) return;
  throw CommandLineError{
      "--ranks " + kind, std::to_string(found) + (found == 1 ? " process" : " processes"),
      std::to_string(ranks) + ", the ranks of the plan (tensor " + std::to_string(layout.tensor) +
          ", pipeline " + std::to_string(layout.pipeline) +
          (layout.context > 1 ? ", context " + std::to_string(layout.context) : "") + ", data " +
          std::to_string(layout.data) + "), as mpirun -n " + std::to_string(ranks) +
          " starts them"};
}

ErrorReport error_report(std::exception_ptr const& error) {
  constexpr char const* who = "stagecraft-exec run";
  try {
    std::rethrow_exception(error);
  } catch (MemoryLimitError const& problem) {
    return {exit_does_not_fit, std::string{who} + ": " + problem.what()};
  } catch (...) {
    Complaint const complaint = complaint_about(error, who);
    return {complaint.exit_code, complaint.text};
  }
}

}  // namespace stagecraft
