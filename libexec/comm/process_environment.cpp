#include "libexec/comm/process_environment.hpp"

#include <array>
#include <cctype>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <utility>

#include "libsim/units/fnv_hash.hpp"
#include "libsim/units/parse_number.hpp"

namespace stagecraft {
namespace {

constexpr int most_processes = 1 << 20;
constexpr int most_port = 65535;
/// The range of default ports: below Linux's ephemeral ports (32768 and up).
constexpr int first_port = 20000;
constexpr int port_count = 10000;

/// The variables of one kind of launcher; null if it has none.
struct Launcher {
  char const* name;
  char const* rank;
  char const* size;
  char const* local_rank;
};
constexpr std::array launchers{
    Launcher{"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK"},
    Launcher{"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
             "OMPI_COMM_WORLD_LOCAL_RANK"},
    Launcher{"PMI", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"},
    Launcher{"PMIx", "PMIX_RANK", nullptr, nullptr},
    Launcher{"Slurm", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"},
};
constexpr Launcher const& slurm = launchers.back();

constexpr char const* accepted_places =
    "--rank and --world-size, or the variables of torchrun (RANK, WORLD_SIZE), Open MPI "
    "(OMPI_COMM_WORLD_RANK, ..._SIZE), PMI or PMIx (PMI_RANK, PMI_SIZE; PMIX_RANK), or Slurm "
    "(SLURM_PROCID, SLURM_NTASKS)";
constexpr char const* accepted_rendezvous =
    "MASTER_ADDR and MASTER_PORT, --master HOST:PORT, --rendezvous mpi, or --rendezvous DIR with a "
    "folder that all machines share";

/// Parses a whole number from `least` to `most`.
int number(std::string const& name, std::string const& text, int least, int most) {
  auto const value = parse_number<int>(text);
  if (value && *value >= least && *value <= most) return *value;
  throw ProcessEnvironmentError{name + ": found '" + text + "'; accepted: a whole number from " +
                                std::to_string(least) + " to " + std::to_string(most)};
}

/// Reads the position of the process from flags and environment. It remembers the names under
/// which rank and size were found, for messages.
class PlaceReader {
 public:
  PlaceReader(ProcessFlags const& flags, EnvironmentLookup const& environment)
      : flags_{flags}, environment_{environment} {}

  ProcessPlace read() {
    if (flags_.rank || flags_.size) {
      read_flags();
    } else {
      read_launcher();
    }
    if (place_.rank >= place_.size) {
      throw ProcessEnvironmentError{rank_name_ + ": found " + std::to_string(place_.rank) + " of " +
                                    std::to_string(place_.size) + " processes (" + size_name_ +
                                    "); accepted: 0 to " + std::to_string(place_.size - 1)};
    }
    if (flags_.local_rank) {
      place_.local_rank = number("--local-rank", *flags_.local_rank, 0, most_processes);
    }
    read_job();
    read_rendezvous();
    return place_;
  }

 private:
  void read_flags() {
    if (!flags_.rank || !flags_.size) {
      throw ProcessEnvironmentError{
          flags_.rank ? "--world-size: found nothing, but --rank; accepted: both, or neither"
                      : "--rank: found nothing, but --world-size; accepted: both, or neither"};
    }
    place_.launcher = "the command line";
    set_place("--rank", *flags_.rank, "--world-size", *flags_.size);
  }

  void read_launcher() {
    for (Launcher const& launcher : launchers) {
      auto const rank = environment_(launcher.rank);
      if (!rank) continue;
      place_.launcher = launcher.name;
      if (launcher.size == nullptr) {
        read_size_elsewhere(launcher, *rank);
      } else if (auto const size = environment_(launcher.size)) {
        set_place(launcher.rank, *rank, launcher.size, *size);
      } else {
        throw ProcessEnvironmentError{std::string{launcher.rank} + ": found '" + *rank +
                                      "', but no " + launcher.size + "; accepted: both, as " +
                                      launcher.name + " sets them"};
      }
      if (launcher.local_rank == nullptr) return;
      if (auto const local = environment_(launcher.local_rank)) {
        place_.local_rank = number(launcher.local_rank, *local, 0, most_processes);
      }
      return;
    }
    throw ProcessEnvironmentError{std::string{"found no rank of this process; accepted: "} +
                                  accepted_places};
  }

  /// PMIx gives the size only to programs that link it; under Slurm the environment has it, too.
  void read_size_elsewhere(Launcher const& launcher, std::string const& rank) {
    auto const size = environment_(slurm.size);
    if (!size) {
      throw ProcessEnvironmentError{std::string{launcher.rank} + ": found '" + rank +
                                    "', but no SLURM_NTASKS; accepted: " + accepted_places};
    }
    set_place(launcher.rank, rank, slurm.size, *size);
    auto const theirs = environment_(slurm.rank);
    if (theirs && number(slurm.rank, *theirs, 0, most_processes) != place_.rank) {
      throw ProcessEnvironmentError{std::string{launcher.rank} + ": found '" + rank +
                                    "', but SLURM_PROCID '" + *theirs +
                                    "'; accepted: the same, or --rank and --world-size"};
    }
    if (auto const local = environment_(slurm.local_rank)) {
      place_.local_rank = number(slurm.local_rank, *local, 0, most_processes);
    }
  }

  void set_place(std::string const& rank_name,
                 std::string const& rank,
                 std::string const& size_name,
                 std::string const& size) {
    rank_name_ = rank_name;
    size_name_ = size_name;
    place_.rank = number(rank_name, rank, 0, most_processes);
    place_.size = number(size_name, size, 1, most_processes);
  }

  void read_job() {
    for (char const* name :
         {"TORCHELASTIC_RUN_ID", "PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "SLURM_JOB_ID"}) {
      auto const value = environment_(name);
      // torchrun names a job "none" if the user gives no name.
      if (!value || *value == "none") continue;
      place_.job = *value;
      auto const step = environment_("SLURM_STEP_ID");
      if (std::string{name} == "SLURM_JOB_ID" && step) place_.job += "." + *step;
      return;
    }
  }

  void read_rendezvous() {
    if (flags_.rendezvous && flags_.master) {
      throw ProcessEnvironmentError{
          "--rendezvous: found together with --master; accepted: only one of the two"};
    }
    if (flags_.rendezvous) {
      place_.folder = *flags_.rendezvous;
      return;
    }
    if (flags_.master) return read_master_flag();
    if (auto const address = environment_("NCCL_COMM_ID")) {
      place_.address = *address;
      return;
    }
    auto const host = environment_("MASTER_ADDR");
    auto const port = environment_("MASTER_PORT");
    if (host && port) {
      int const given = number("MASTER_PORT", *port, 1, most_port - 1);
      // torchrun's agent itself listens there.
      bool const is_taken = environment_("TORCHELASTIC_USE_AGENT_STORE") == "True";
      place_.address = address_of(*host, is_taken ? given + 1 : given);
      return;
    }
    if (host || port) {
      throw ProcessEnvironmentError{
          host ? "MASTER_ADDR: found '" + *host + "', but no MASTER_PORT; accepted: both"
               : "MASTER_PORT: found '" + *port + "', but no MASTER_ADDR; accepted: both"};
    }
    if (place_.size > 1) guess_address();
  }

  /// HOST:PORT as NCCL reads it: an IPv6 address is in brackets.
  static std::string address_of(std::string const& host, int port) {
    bool const is_ipv6 = host.find(':') != std::string::npos && !host.starts_with('[');
    return (is_ipv6 ? "[" + host + "]" : host) + ":" + std::to_string(port);
  }

  void read_master_flag() {
    std::size_t const colon = flags_.master->rfind(':');
    if (colon == std::string::npos || colon == 0) {
      throw ProcessEnvironmentError{"--master: found '" + *flags_.master +
                                    "'; accepted: HOST:PORT, such as node003:29500"};
    }
    place_.address = address_of(flags_.master->substr(0, colon),
                                number("--master", flags_.master->substr(colon + 1), 1, most_port));
  }

  /// Assumes that rank 0 is on Slurm's first machine, or on this machine if all processes are.
  void guess_address() {
    if (place_.job.empty()) refuse_rendezvous();
    if (environment_("OMPI_COMM_WORLD_LOCAL_SIZE") == std::to_string(place_.size)) {
      place_.address = address_of("127.0.0.1", port_of_job());
      return;
    }
    bool const is_of_slurm =
        place_.launcher == slurm.name || place_.launcher == "PMIx" || place_.launcher == "PMI";
    for (char const* name : {"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST"}) {
      auto const list = environment_(name);
      if (!list || !is_of_slurm) continue;
      place_.address = address_of(first_host(*list), port_of_job());
      return;
    }
    refuse_rendezvous();
  }

  [[noreturn]] void refuse_rendezvous() const {
    throw ProcessEnvironmentError{"found " + std::to_string(place_.size) + " processes of " +
                                  place_.launcher +
                                  ", but no address of rank 0; accepted: " + accepted_rendezvous};
  }

  /// A port that is the same in all processes of a job and differs in most other jobs.
  int port_of_job() const {
    return first_port + static_cast<int>(fnv_hash(place_.job) % port_count);
  }

  ProcessFlags const& flags_;
  EnvironmentLookup const& environment_;
  std::string rank_name_;
  std::string size_name_;
  ProcessPlace place_;
};

}  // namespace

std::optional<std::string> from_environment(std::string const& name) {
  char const* const value = std::getenv(name.c_str());
  if (value == nullptr || *value == '\0') return std::nullopt;
  return value;
}

std::optional<LaunchedRank> find_launched_rank(EnvironmentLookup const& environment) {
  struct Sign {
    char const* launcher;
    char const* rank;
    char const* size;
    char const* always;  ///< only this launcher sets it
  };
  constexpr std::array signs{
      Sign{"torchrun", "RANK", "WORLD_SIZE", "TORCHELASTIC_RUN_ID"},
      Sign{"mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_SIZE"},
      Sign{"mpirun", "PMI_RANK", "PMI_SIZE", "PMI_SIZE"},
      Sign{"srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_STEP_NUM_TASKS"}};
  for (Sign const& sign : signs) {
    auto const rank = environment(sign.rank);
    auto const size = environment(sign.size);
    if (!rank || !size || !environment(sign.always)) continue;
    LaunchedRank const found{.rank = number(sign.rank, *rank, 0, most_processes),
                             .size = number(sign.size, *size, 1, most_processes),
                             .launcher = sign.launcher};
    if (found.size > 1) return found;
  }
  return std::nullopt;
}

ProcessPlace find_process(ProcessFlags const& flags, EnvironmentLookup const& environment) {
  return PlaceReader{flags, environment}.read();
}

std::filesystem::path file_of_job(ProcessPlace const& place) {
  std::string name = "stagecraft-" + std::to_string(place.size);
  if (!place.job.empty()) name += "-" + place.job;
  for (char& letter : name) {
    if (std::isalnum(static_cast<unsigned char>(letter)) == 0 && letter != '.') letter = '-';
  }
  return place.folder / (name + ".nccl");
}

std::string first_host(std::string const& list) {
  std::size_t const open = list.find_first_of("[,");
  if (open == std::string::npos || list[open] == ',') return list.substr(0, open);
  std::size_t const close = list.find(']', open);
  std::size_t const first_end = list.find_first_of("-,]", open);
  if (close == std::string::npos) {
    throw ProcessEnvironmentError{"SLURM_JOB_NODELIST: found '" + list +
                                  "'; accepted: a list of machines such as node[003-010,012]"};
  }
  std::size_t const end = list.find(',', close);
  std::string const behind =
      list.substr(close + 1, end == std::string::npos ? end : end - close - 1);
  return first_host(list.substr(0, open) + list.substr(open + 1, first_end - open - 1) + behind);
}

LaunchedProcess::LaunchedProcess(ProcessPlace place, Describe describe)
    : place_{std::move(place)}, describe_{std::move(describe)} {}

void LaunchedProcess::fail(std::exception_ptr const& error) {
  std::scoped_lock const only_one_thread{failing_};
  ErrorReport const report = describe_(error);
  if (rank() != RankId{0}) std::this_thread::sleep_for(std::chrono::seconds{1});
  std::fputs(report.reason.c_str(), stderr);  // std::cerr is silent on all ranks but the first
  std::fflush(stderr);
  std::_Exit(report.exit_code);
}

}  // namespace stagecraft
