#include "libsim/run/collectives_file.hpp"

#include <catch2/catch.hpp>

#include "libsim/run/config_files.hpp"
#include "tests/libsim/run/temporary_folder.hpp"

namespace stagecraft::collectives_file_test {
namespace {

constexpr char const* tables_text = "bytes,all_reduce 1x4,all_reduce 2x8\n8,1,2\n1024,3,4\n";

TEST_CASE("Selene's collectives are the whole tables of vTrain", "[run]") {
  auto const file =
      std::filesystem::path{STAGECRAFT_SOURCE_DIR} / "configs/systems/selene-a100.yaml";
  MeasuredCollectives const measured = load_system_file(file).node.collectives.value;
  REQUIRE(measured.file == "vtrain-a100-all-reduce.csv");
  REQUIRE(measured.tables->size() == 7);  // 2 to 8 ranks
  auto const& of_eight = measured.tables->at({OpKind::all_reduce, 1, 8});
  REQUIRE(of_eight.size() == 1024);
  // trace/a100/AR_GPU8_1M_1024M_LUT: 96 MiB in 828.5 us.
  REQUIRE(of_eight[95] == CollectivePoint{Bytes{96 << 20}, Seconds{828.5e-6}});
}

TEST_CASE("tables beside the system file are found, and printed as an absolute name", "[run]") {
  TemporaryFolder const folder;
  std::string const tables = folder.write("mine.csv", tables_text);
  std::string const file = folder.write("mine.yaml",
                                        "base: dgx-h100\n"
                                        "node: {collectives: mine.csv}\n"
                                        "network: {collectives: {value: mine.csv, source: us}}\n");
  System const system = load_system_file(file);
  REQUIRE(system.node.collectives.value.file == tables);
  REQUIRE(system.node.collectives.source == "given in " + file);
  REQUIRE(system.network.collectives.source == "us");
  // One file, read once.
  REQUIRE(system.node.collectives.value.tables == system.network.collectives.value.tables);
  REQUIRE_FALSE(system.validated);
}

TEST_CASE("a file beside the system file comes before one of configs/systems", "[run]") {
  TemporaryFolder const folder;
  std::string const own = folder.write("vtrain-a100-all-reduce.csv", tables_text);
  std::string const file = folder.write(
      "mine.yaml", "base: dgx-h100\nnode: {collectives: vtrain-a100-all-reduce.csv}\n");
  REQUIRE(load_system_file(file).node.collectives.value.file == own);
}

TEST_CASE("an override of a rate takes the place of tables", "[run]") {
  auto const file = std::filesystem::path{STAGECRAFT_SOURCE_DIR} / "configs/paper/22b-full.yaml";
  auto const with = [&](std::string const& setting) {
    return load_run_config(file, {setting}).system.node.collectives.value;
  };
  REQUIRE(with("model.layers=24").tables != nullptr);
  // A bus bandwidth is the all-reduces'; the gathers still come from the tables.
  REQUIRE(with("system.node.bus_bandwidth=200 GB/s").tables != nullptr);
  // With one of the rates given the others must be, too: the tables are gone.
  REQUIRE_THROWS_WITH(with("system.node.all_reduce={latency: 80 us, bandwidth: 230 GB/s}"),
                      Catch::Contains("system.node.all_gather: missing"));
}

TEST_CASE("tables that cannot be used are named with what is wrong", "[run]") {
  TemporaryFolder const folder;
  auto const with = [&](std::string const& text, std::string const& section) {
    folder.write("t.csv", text);
    return load_system_file(
        folder.write("s.yaml", "base: dgx-h100\n" + section + ": {collectives: t.csv}\n"));
  };
  REQUIRE_THROWS_WITH(with("bytes,all_reduce 1x8\n1,-1\n2,1\n", "node"),
                      Catch::Contains("t.csv:2:3: node.collectives: found '-1'"));
  REQUIRE_THROWS_WITH(
      load_system_file(folder.write("n.yaml", "base: dgx-h100\nnode: {collectives: none.csv}\n")),
      Catch::Contains("none.csv: node.collectives: found a file that cannot be opened"));
}

}  // namespace
}  // namespace stagecraft::collectives_file_test
