#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/program/command.hpp"
#include "libexec/comm/job_session.hpp"
#include "libsim/training/training_config.hpp"

namespace stagecraft {

/// The job that this process belongs to.
struct RankProcesses {
  std::string kind;  ///< mpi or nccl
  JobSession& session;
  std::optional<int> local_rank{};  ///< nccl: among the processes of this machine, if known
  /// Makes worlds; `device` is that of this process, for nccl.
  std::function<MakeProcessWorld(int device)> worlds{};
};

using ProcessCommand = std::function<int(RankProcesses const&)>;

/// --rank, --world-size, --local-rank, --master and --rendezvous.
std::vector<Option> process_options();

/// Returns "mpi" or "nccl" if a command line has --ranks with it. A process has to know its rank
/// before the command line is read, so that only rank 0 reports errors in it.
std::optional<std::string> asks_for_processes(std::vector<std::string> const& arguments);

/// Refuses a command line without --ranks in a process that torchrun, mpirun or srun has started
/// beside others: each process would run the whole plan. \throws CommandLineError  on rank 0
/// \returns the exit code of another rank, which says nothing; nullopt for a process of its own
std::optional<int> refuse_silent_copies(std::vector<std::string> const& arguments);

/// Runs `command` in a process that is one of several. Only rank 0 writes to standard output and
/// error. What `command` throws is reported by JobSession::fail(), which ends all processes.
/// \returns the command's exit code
/// \throws CommandLineError, CommunicationError  if the process does not know its rank.
int on_process_ranks(std::string const& kind,
                     std::vector<std::string> const& arguments,
                     ProcessCommand const& command);

/// Checks that there is one process per rank of the plan. `kind` is the value of --ranks.
/// \throws CommandLineError
void require_processes(std::string const& kind,
                       RankProcesses const* processes,
                       TrainingConfig const& config);

/// The report of `stagecraft-exec run` about an error: that of any program, or that a plan does not
/// fit.
ErrorReport error_report(std::exception_ptr const& error);

}  // namespace stagecraft
