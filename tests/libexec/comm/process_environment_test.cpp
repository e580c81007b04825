#include "libexec/comm/process_environment.hpp"

#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <fstream>
#include <map>
#include <string>
#include <thread>

#include "libexec/comm/communicator.hpp"
#include "libexec/comm/id_file.hpp"

namespace stagecraft::process_environment_test {
namespace {

using Variables = std::map<std::string, std::string>;

EnvironmentLookup lookup(Variables const& variables) {
  return [&](std::string const& name) -> std::optional<std::string> {
    auto const found = variables.find(name);
    if (found == variables.end()) return std::nullopt;
    return found->second;
  };
}

ProcessPlace find(Variables const& variables, ProcessFlags const& flags = {}) {
  return find_process(flags, lookup(variables));
}

std::string refusal(Variables const& variables, ProcessFlags const& flags = {}) {
  try {
    find(variables, flags);
  } catch (ProcessEnvironmentError const& error) {
    return error.what();
  }
  return "";
}

Variables const slurm{{"SLURM_PROCID", "9"},  {"SLURM_NTASKS", "64"},
                      {"SLURM_LOCALID", "1"}, {"SLURM_JOB_ID", "4711"},
                      {"SLURM_STEP_ID", "0"}, {"SLURM_JOB_NODELIST", "node[003-010]"}};

TEST_CASE("torchrun's variables say all, and its own store keeps the port", "[comm]") {
  Variables variables{{"RANK", "5"},
                      {"WORLD_SIZE", "8"},
                      {"LOCAL_RANK", "1"},
                      {"MASTER_ADDR", "node7"},
                      {"MASTER_PORT", "29500"}};
  ProcessPlace const place = find(variables);
  REQUIRE(place.rank == 5);
  REQUIRE(place.size == 8);
  REQUIRE(place.local_rank == 1);
  REQUIRE(place.launcher == "torchrun");
  REQUIRE(place.address == "node7:29500");
  variables["TORCHELASTIC_USE_AGENT_STORE"] = "True";
  REQUIRE(find(variables).address == "node7:29501");
  variables["MASTER_ADDR"] = "fd00::7";
  REQUIRE(find(variables).address == "[fd00::7]:29501");
  variables["NCCL_COMM_ID"] = "node8:1234";
  REQUIRE(find(variables).address == "node8:1234");
}

TEST_CASE("a process knows whether a launcher started others beside it", "[comm]") {
  auto const size = [](Variables const& variables) {
    auto const found = find_launched_rank(lookup(variables));
    return found ? found->launcher + " " + std::to_string(found->rank) + " of " +
                       std::to_string(found->size)
                 : "alone";
  };
  REQUIRE(size({}) == "alone");
  REQUIRE(size({{"OMPI_COMM_WORLD_RANK", "3"}, {"OMPI_COMM_WORLD_SIZE", "8"}}) == "mpirun 3 of 8");
  REQUIRE(size({{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "1"}}) == "alone");
  REQUIRE(size({{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"TORCHELASTIC_RUN_ID", "none"}}) ==
          "torchrun 1 of 2");
  // Any script may set these two.
  REQUIRE(size({{"RANK", "1"}, {"WORLD_SIZE", "2"}}) == "alone");
  // The script of a batch job, and a step of it.
  REQUIRE(size(slurm) == "alone");
  Variables step = slurm;
  step["SLURM_STEP_NUM_TASKS"] = "64";
  REQUIRE(size(step) == "srun 9 of 64");
}

TEST_CASE("whoever is nearer to the process wins", "[comm]") {
  Variables variables = slurm;
  REQUIRE(find(variables).launcher == "Slurm");
  variables["OMPI_COMM_WORLD_RANK"] = "2";
  variables["OMPI_COMM_WORLD_SIZE"] = "4";
  variables["OMPI_COMM_WORLD_LOCAL_RANK"] = "2";
  variables["OMPI_COMM_WORLD_LOCAL_SIZE"] = "4";
  REQUIRE(find(variables).rank == 2);
  REQUIRE(find(variables).size == 4);
  REQUIRE(find(variables).address.starts_with("127.0.0.1:"));
  variables["RANK"] = "0";
  variables["WORLD_SIZE"] = "2";
  variables["MASTER_ADDR"] = "here";
  variables["MASTER_PORT"] = "1234";
  REQUIRE(find(variables).launcher == "torchrun");
  ProcessPlace const place = find(variables, {.rank = "3", .size = "5", .master = "there:99"});
  REQUIRE(place.rank == 3);
  REQUIRE(place.size == 5);
  REQUIRE(place.address == "there:99");
}

TEST_CASE("under Slurm rank 0 is on the first machine, at a port of the job's own", "[comm]") {
  ProcessPlace const place = find(slurm);
  REQUIRE(place.rank == 9);
  REQUIRE(place.size == 64);
  REQUIRE(place.local_rank == 1);
  REQUIRE(place.address.starts_with("node003:"));
  REQUIRE(place.job == "4711.0");
  Variables other = slurm;
  other["SLURM_JOB_ID"] = "4712";
  REQUIRE(find(other).address != place.address);
  Variables peer = slurm;
  peer["SLURM_PROCID"] = "0";
  REQUIRE(find(peer).address == place.address);
}

TEST_CASE("the first machine of Slurm's lists", "[comm]") {
  REQUIRE(first_host("node7") == "node7");
  REQUIRE(first_host("a1,b[2-3]") == "a1");
  REQUIRE(first_host("node[003-010,012]") == "node003");
  REQUIRE(first_host("node[5,7]") == "node5");
  REQUIRE(first_host("rack[1-2]-gpu[04-07]") == "rack1-gpu04");
  REQUIRE(first_host("rack[1-2]-x,other") == "rack1-x");
}

TEST_CASE("PMIx says the rank, Slurm of how many, and they must agree", "[comm]") {
  Variables variables = slurm;
  variables["PMIX_RANK"] = "9";
  REQUIRE(find(variables).launcher == "PMIx");
  REQUIRE(find(variables).local_rank == 1);
  variables["PMIX_RANK"] = "8";
  REQUIRE(refusal(variables).find("PMIX_RANK: found '8', but SLURM_PROCID '9'") == 0);
  REQUIRE(refusal({{"PMIX_RANK", "8"}}).find("no SLURM_NTASKS") != std::string::npos);
}

TEST_CASE("what is missing or contradicts itself is said with what was found", "[comm]") {
  REQUIRE(refusal({}).find("found no rank of this process; accepted: --rank") == 0);
  REQUIRE(refusal({{"RANK", "1"}}).find("RANK: found '1', but no WORLD_SIZE") == 0);
  REQUIRE(refusal({{"RANK", "8"}, {"WORLD_SIZE", "8"}}).find("RANK: found 8 of 8 processes") == 0);
  REQUIRE(
      refusal({{"RANK", "x"}, {"WORLD_SIZE", "8"}}).find("RANK: found 'x'; accepted: a whole") ==
      0);
  REQUIRE(refusal({}, {.rank = "1"}).find("--world-size: found nothing, but --rank") == 0);
  Variables const torchrun{{"RANK", "1"}, {"WORLD_SIZE", "8"}};
  REQUIRE(refusal(torchrun).find("found 8 processes of torchrun, but no address of rank 0") == 0);
  Variables half = torchrun;
  half["MASTER_ADDR"] = "a";
  REQUIRE(refusal(half).find("MASTER_ADDR: found 'a', but no MASTER_PORT") == 0);
  REQUIRE(
      refusal(torchrun, {.master = "node"}).find("--master: found 'node'; accepted: HOST:PORT") ==
      0);
  REQUIRE(refusal(torchrun, {.master = "a:1", .rendezvous = "/x"})
              .find("--rendezvous: found together with --master") == 0);
  // Open MPI on several machines does not say where rank 0 is.
  REQUIRE(refusal({{"OMPI_COMM_WORLD_RANK", "1"},
                   {"OMPI_COMM_WORLD_SIZE", "16"},
                   {"OMPI_COMM_WORLD_LOCAL_SIZE", "8"},
                   {"PMIX_NAMESPACE", "123"}})
              .find("found 16 processes of Open MPI") == 0);
}

TEST_CASE("a shared folder needs no address of rank 0", "[comm]") {
  ProcessPlace const place =
      find({{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}}, {.rendezvous = "/shared"});
  REQUIRE(place.folder == "/shared");
  REQUIRE(place.address.empty());
  REQUIRE(file_of_job(place) == "/shared/stagecraft-2.nccl");
  REQUIRE(file_of_job(find(slurm, {.rendezvous = "d"})) == "d/stagecraft-64-4711.0.nccl");
}

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using Catch::Contains;

using Id = std::array<char, 128>;

/// A folder of this process, removed with all that is in it.
struct Folder {
  fs::path path = fs::temp_directory_path() / ("stagecraft-id-" + std::to_string(getpid()));
  ~Folder() { fs::remove_all(path); }
};

void share(fs::path const& path, int rank, Id& id, std::chrono::seconds timeout = 10s) {
  IdFile{path, RankId{rank}}.share(std::as_writable_bytes(std::span{id}), timeout);
}

TEST_CASE("all ranks get rank 0's id, whoever comes first, and no file is left", "[comm]") {
  Folder const folder;
  fs::path const path = folder.path / "new" / "job.nccl";
  Id id{"an id"};
  Id others{};
  std::jthread other{[&] { share(path, 1, others); }};
  std::this_thread::sleep_for(60ms);
  {
    IdFile first{path, RankId{0}};
    first.share(std::as_writable_bytes(std::span{id}), 10s);
    other.join();
  }
  REQUIRE(others == id);
  REQUIRE(fs::is_empty(path.parent_path()));
}

TEST_CASE("a file that is there is not taken, and not removed", "[comm]") {
  Folder const folder;
  fs::create_directories(folder.path);
  fs::path const path = folder.path / "job.nccl";
  std::ofstream{path} << "of another job";
  Id id{};
  REQUIRE_THROWS_WITH(share(path, 0, id), Contains("could not write '" + path.string()) &&
                                              Contains("; remove it if no other job is starting"));
  REQUIRE(fs::file_size(path) == 14);
}

TEST_CASE("a rank says how long it waited for which file", "[comm]") {
  Id id{};
  REQUIRE_THROWS_WITH(share("/nowhere/job.nccl", 3, id, 0s),
                      "rank 3 waited 0 s for rank 0 to write '/nowhere/job.nccl'");
}

}  // namespace

}  // namespace stagecraft::process_environment_test
