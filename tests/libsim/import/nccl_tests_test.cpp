#include "libsim/import/nccl_tests.hpp"

#include <catch2/catch.hpp>
#include <sstream>

namespace stagecraft::nccl_tests_test {
namespace {

/// `count` lines of ranks, `per_host` on each host.
std::string ranks(int count, int per_host) {
  std::string text = "# Using devices\n";
  for (int rank = 0; rank < count; ++rank) {
    text += "#  Rank " + std::string(rank < 10 ? " " : "") + std::to_string(rank) +
            " Group  0 Pid   1887 on   worker-" + std::to_string(rank / per_host) + " device  " +
            std::to_string(rank % per_host) + " [0x8d] NVIDIA H100 80GB HBM3\n";
  }
  return text;
}

constexpr char const* header =
    "#\n"
    "#                                                              out-of-place      in-place\n"
    "#       size         count      type   redop    root     time   algbw   busbw #wrong     "
    "time\n"
    "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            "
    "(us)\n";

/// Two sizes of an all-reduce among 16: the bus bandwidth is 30/16 of the other one.
constexpr char const* sums =
    "   536870912     134217728     float     sum      -1   2432.7  220.69  413.79      0   "
    "2382.4\n"
    "  1073741824     268435456     float     sum      -1   4523.3  237.38  445.09      0   "
    "4518.9\n"
    "# Out of bounds values : 0 OK\n";

NcclTestsImport read(std::string const& text, std::optional<OpKind> kind = std::nullopt) {
  return import_nccl_tests({{text, "nccl.log"}}, kind);
}

TEST_CASE("a log that names its collective is a table of its shape", "[import]") {
  auto const import = read(
      "# nccl-tests version 2.17.6 nccl-headers=22501\n"
      "# Collective test starting: all_gather_perf\n"
      "# nThread 1 nGpus 1 minBytes 536870912\n" +
      ranks(16, 8) + header + sums);
  REQUIRE(import.notes.empty());
  REQUIRE(import.tables.size() == 1);
  auto const& table = import.tables.at({OpKind::all_gather, 2, 8});
  REQUIRE(table.size() == 2);
  REQUIRE(table[0].size == Bytes{536870912});
  REQUIRE(table[0].duration.value == Approx(2432.7e-6));
  REQUIRE(table[1].duration.value == Approx(4523.3e-6));
}

TEST_CASE("sums of older versions are told apart by the ratio of the bandwidths", "[import]") {
  std::string const old = "# nThread 1 nGpus 8 minBytes 8388608 maxBytes 1073741824\n";
  REQUIRE(read(old + ranks(16, 8) + header + sums).tables.count({OpKind::all_reduce, 2, 8}) == 1);
  // A reduce-scatter among 8 has 7/8 of the bandwidth.
  std::string const scatter =
      "1024 16 float sum -1 10 100 87.5 0 9\n2048 32 float sum -1 20 100 87.5 0 9\n";
  REQUIRE(read(old + ranks(8, 8) + scatter).tables.count({OpKind::reduce_scatter, 1, 8}) == 1);
  // Without a sum it must be said.
  std::string const gather =
      "1024 16 float none -1 10 100 87.5 0 9\n2048 32 float none -1 20 100 87.5 0 9\n";
  REQUIRE_THROWS_WITH(read(old + ranks(8, 8) + gather),
                      "nccl.log:11:1: found a run that does not say its collective; accepted: "
                      "--collective KIND");
  REQUIRE(read(old + ranks(8, 8) + gather, OpKind::all_gather)
              .tables.count({OpKind::all_gather, 1, 8}) == 1);
}

TEST_CASE("runs of one shape are averaged, others are tables of their own", "[import]") {
  auto const run = [](std::string const& kind, int nodes, std::string const& rows) {
    return "# Collective test starting: " + kind + "_perf\n" + ranks(nodes * 4, 4) + rows;
  };
  std::string const rows =
      "0 0 float sum -1 5 0 0 0 5\n8 2 float sum -1 10 1 1 0 9\n16 4 float sum -1 20 1 1 N/A 9\n";
  std::string const again = "8 2 float sum -1 14 1 1 0 9\n";
  auto const import =
      read(run("all_reduce", 1, rows) + run("all_reduce", 1, again) + run("all_reduce", 2, rows) +
           run("alltoall", 1, rows) + run("reduce_scatter", 1, again));
  REQUIRE(import.tables.size() == 2);
  REQUIRE(import.tables.at({OpKind::all_reduce, 1, 4}).front().duration.value == Approx(12e-6));
  REQUIRE(import.tables.at({OpKind::all_reduce, 1, 4}).size() == 2);  // without the size 0
  REQUIRE(import.tables.count({OpKind::all_reduce, 2, 4}) == 1);
  REQUIRE(import.notes.size() == 2);
  REQUIRE(import.notes[0].find("alltoall_perf is left out") != std::string::npos);
  REQUIRE(import.notes[1].find("reduce_scatter 1x4: one size only") == 0);
}

TEST_CASE("labels of tasks and lines of other programs do no harm", "[import]") {
  std::string labelled;
  std::istringstream plain{"# Collective test starting: all_reduce_perf\n" + ranks(16, 8) + sums};
  for (std::string line; std::getline(plain, line);) labelled += "0: " + line + "\n";
  auto const import = read("libnl-3.so.200: no version information\n" + labelled + "exit 0\n");
  REQUIRE(import.tables.at({OpKind::all_reduce, 2, 8}).size() == 2);
}

TEST_CASE("wrong values are left out, and what cannot be understood is refused", "[import]") {
  std::string const start = "# Collective test starting: all_reduce_perf\n";
  auto const import = read(start + ranks(8, 8) +
                           "8 2 float sum -1 1 1 1 3 9\n16 4 float sum -1 2 1 1 0 9\n"
                           "32 8 float sum -1 4 1 1 0 9\n");
  REQUIRE(import.tables.at({OpKind::all_reduce, 1, 8}).size() == 2);
  REQUIRE(import.notes ==
          std::vector<std::string>{"nccl.log:1:1: 8 bytes are left out: 3 values were wrong"});
  REQUIRE_THROWS_WITH(
      read(start + ranks(12, 8) + sums),
      "nccl.log:1:1: found 8 ranks on worker-0 and 4 on worker-1; accepted: as many "
      "ranks on every node");
  REQUIRE_THROWS_WITH(read(start + ranks(1, 1) + ranks(1, 1) + sums),
                      Catch::Contains("found every process as rank 0"));
  REQUIRE_THROWS_WITH(read(start + sums), Catch::Contains("found no list of ranks"));
  REQUIRE_THROWS_WITH(read("nothing\n"), Catch::Contains("found no times that can be used"));
}

}  // namespace
}  // namespace stagecraft::nccl_tests_test
