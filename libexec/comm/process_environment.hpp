#pragma once

#include <filesystem>
#include <functional>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>

#include "libexec/comm/job_session.hpp"

namespace stagecraft {

/// The description of this process by its launcher is missing or contradictory. The message says in
/// one line what was found and what is accepted.
class ProcessEnvironmentError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// This process's position in a job that torchrun, mpirun, srun or a script started.
struct ProcessPlace {
  int rank = 0;
  int size = 1;                     ///< number of processes
  std::optional<int> local_rank{};  ///< among the processes of its machine
  std::string launcher{};           ///< the source of this information
  /// Distinguishes the job from others on its machines; empty if it has no name.
  std::string job{};

  /// Where the processes find rank 0: in a folder that all of them share, or at an address,
  /// HOST:PORT. A job of one process needs neither.
  std::filesystem::path folder{};
  std::string address{};
};

/// The path of this job's own file in the shared folder.
std::filesystem::path file_of_job(ProcessPlace const& place);

/// The flags of the command line, which take precedence over the environment.
struct ProcessFlags {
  std::optional<std::string> rank{};
  std::optional<std::string> size{};        ///< --world-size
  std::optional<std::string> local_rank{};  ///< --local-rank
  std::optional<std::string> master{};      ///< --master HOST:PORT
  std::optional<std::string> rendezvous{};  ///< --rendezvous DIR
};

/// Looks up an environment variable. Returns nullopt if it is not set, or empty.
using EnvironmentLookup = std::function<std::optional<std::string>(std::string const& name)>;
std::optional<std::string> from_environment(std::string const& name);

/// Finds this process's position from flags, torchrun, Open MPI, PMIx or PMI, or Slurm. The first
/// of these that is present decides: torchrun and mpirun may themselves be started by Slurm. Flags,
/// NCCL_COMM_ID, or MASTER_ADDR and MASTER_PORT give the address of rank 0; otherwise it is on
/// Slurm's first machine, or on this machine if all processes are.
///
/// Sources: torchrun, pytorch.org/docs/stable/elastic/run.html; Open MPI 4.1, mpirun(1);
/// PMIx_Init(3); MPICH's Hydra; Slurm, srun(1), OUTPUT ENVIRONMENT VARIABLES.
/// \throws ProcessEnvironmentError
ProcessPlace find_process(ProcessFlags const& flags, EnvironmentLookup const& environment);

/// The rank of a process that a launcher started as one of several.
struct LaunchedRank {
  int rank = 0;
  int size = 0;
  std::string launcher{};
};

/// What torchrun, mpirun or srun say of this process; nullopt if it was started alone. The batch
/// script of a Slurm job is alone, whatever the job has asked for.
std::optional<LaunchedRank> find_launched_rank(EnvironmentLookup const& environment);

/// The first machine of a list as Slurm writes them: "node[003-010,012]" is node003.
std::string first_host(std::string const& list);

/// One process of a job that a launcher started. The launcher (torchrun, mpirun, srun) ends the
/// other processes when one exits with an error or is killed.
class LaunchedProcess final : public JobSession {
 public:
  LaunchedProcess(ProcessPlace place, Describe describe);

  RankId rank() const override { return RankId{place_.rank}; }
  int size() const override { return place_.size; }
  ProcessPlace const& place() const { return place_; }

  /// Rank 0 reports at once, the others a second later. So an error of all ranks, such as one in
  /// the configuration, is reported by rank 0 alone, because its end ends the others.
  [[noreturn]] void fail(std::exception_ptr const& error) override;

 private:
  ProcessPlace place_;
  Describe describe_;
  std::mutex failing_;
};

}  // namespace stagecraft
