#include "libexec/memory/available_memory.hpp"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <fstream>
#include <string>

namespace stagecraft::available_memory_test {
namespace {

namespace fs = std::filesystem;

/// What a system says of itself, in a folder.
class InventedMachine {
 public:
  InventedMachine()
      : root_{fs::temp_directory_path() / ("stagecraft-machine-" + std::to_string(::getpid()))} {
    write("proc/meminfo",
          "MemTotal:       24000000 kB\nMemFree:   10 kB\nMemAvailable:   20000000 kB\n"
          "HugePages_Total:       0\n");
  }
  ~InventedMachine() { fs::remove_all(root_); }
  InventedMachine(InventedMachine const&) = delete;
  InventedMachine(InventedMachine&&) = delete;
  InventedMachine& operator=(InventedMachine const&) = delete;
  InventedMachine& operator=(InventedMachine&&) = delete;

  void write(std::string const& file, std::string const& text) const {
    fs::create_directories((root_ / file).parent_path());
    std::ofstream{root_ / file} << text;
  }
  std::optional<Bytes> available() const { return available_memory(root_); }

 private:
  fs::path root_;
};

constexpr Bytes of_meminfo{20'000'000LL * 1024};

TEST_CASE("without a limit, available is what /proc/meminfo says, in units of 1024 bytes") {
  InventedMachine const machine;
  REQUIRE(machine.available() == of_meminfo);
  machine.write("proc/self/cgroup", "0::/a/b\n");
  machine.write("sys/fs/cgroup/a/b/memory.max", "max\n");
  REQUIRE(machine.available() == of_meminfo);
}

TEST_CASE("the lowest limit of the control group and those above it counts, of either version") {
  InventedMachine const machine;
  SECTION("version 2") {
    machine.write("proc/self/cgroup", "0::/a/b\n");
    machine.write("sys/fs/cgroup/a/b/memory.max", "max\n");
    machine.write("sys/fs/cgroup/a/memory.max", "5000\n");
    REQUIRE(machine.available() == Bytes{5000});
    machine.write("sys/fs/cgroup/memory.max", "4000\n");  // as in a container
    REQUIRE(machine.available() == Bytes{4000});
  }
  SECTION("version 1") {
    machine.write("proc/self/cgroup", "5:cpu:/x\n4:memory:/job\n");
    machine.write("sys/fs/cgroup/memory/job/memory.limit_in_bytes", "6000\n");
    machine.write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    REQUIRE(machine.available() == Bytes{6000});
  }
  SECTION("a limit above what is there") {
    machine.write("proc/self/cgroup", "0::/\n");
    machine.write("sys/fs/cgroup/memory.max", "9000000000000\n");
    REQUIRE(machine.available() == of_meminfo);
  }
}

TEST_CASE("a system that says nothing has no known limit") {
  REQUIRE_FALSE(available_memory("/nowhere").has_value());
}

TEST_CASE("this machine says what it has") { REQUIRE(available_memory().value() > Bytes{0}); }

}  // namespace
}  // namespace stagecraft::available_memory_test
