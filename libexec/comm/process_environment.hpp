#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>

namespace stagecraft {

/// What whoever started the process says of it is missing, or contradicts itself. The message says
/// in one line what was found and what is accepted.
class ProcessEnvironmentError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// One process of a job that something like torchrun, mpirun or srun has started.
struct ProcessPlace {
  int rank = 0;
  int size = 1;                     ///< processes of the job
  std::optional<int> local_rank{};  ///< among the processes of its machine
  std::string launcher{};           ///< who says so
  /// Tells this job from others on its machines; empty if nobody gave it a name.
  std::string job{};

  /// How the processes find rank 0: through a folder that all of them share, or else at an address,
  /// HOST:PORT. A job of one process needs neither.
  std::filesystem::path folder{};
  std::string address{};
};

/// A file for this job alone in its shared folder.
std::filesystem::path file_of_job(ProcessPlace const& place);

/// What the command line says of it; wins over everything else.
struct ProcessFlags {
  std::optional<std::string> rank{};
  std::optional<std::string> size{};        ///< --world-size
  std::optional<std::string> local_rank{};  ///< --local-rank
  std::optional<std::string> master{};      ///< --master HOST:PORT
  std::optional<std::string> rendezvous{};  ///< --rendezvous DIR
};

/// Looks up an environment variable; returns nothing if it is not set, or empty.
using EnvironmentLookup = std::function<std::optional<std::string>(std::string const& name)>;
std::optional<std::string> from_environment(std::string const& name);

/// Flags, torchrun, Open MPI, PMIx or PMI, Slurm, in this order: whoever is nearer to the process
/// wins, since torchrun and mpirun are themselves started by Slurm. Rank 0 is where flags,
/// NCCL_COMM_ID, or MASTER_ADDR and MASTER_PORT say; else on Slurm's first machine, or on this one
/// if it has all processes.
///
/// Sources: torchrun, pytorch.org/docs/stable/elastic/run.html; Open MPI 4.1, mpirun(1);
/// PMIx_Init(3); MPICH's Hydra; Slurm, srun(1), OUTPUT ENVIRONMENT VARIABLES.
/// \throws ProcessEnvironmentError
ProcessPlace find_process(ProcessFlags const& flags, EnvironmentLookup const& environment);

/// The first machine of a list as Slurm writes them: "node[003-010,012]" is node003.
std::string first_host(std::string const& list);

}  // namespace stagecraft
