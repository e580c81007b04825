#include "libexec/comm/id_file.hpp"

#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <fstream>
#include <string>
#include <thread>

#include "libexec/comm/communicator.hpp"

namespace stagecraft::id_file_test {
namespace {

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
}  // namespace stagecraft::id_file_test
